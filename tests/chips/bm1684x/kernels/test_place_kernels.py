"""Kernels for places against their ops' evaluation, in the simulator, under the chosen and under forced tilings."""

from __future__ import annotations

from tpuc.testing.kernel_conformance import KernelConformance

from tests.chips.bm1684x.kernels import place_samples


class TestRows(KernelConformance):
    chip = "bm1684x"
    samples = place_samples.ROWS


class TestLogic(KernelConformance):
    chip = "bm1684x"
    samples = place_samples.LOGIC


class TestOrder(KernelConformance):
    chip = "bm1684x"
    samples = place_samples.ORDER
