"""Every kernel against its op's evaluation, in the simulator, under the chosen and under forced tilings."""

from __future__ import annotations

from tpuc.testing.kernel_conformance import KernelConformance

from tests.chips.bm1684x.kernels import samples


class TestConvolutions(KernelConformance):
    chip = "bm1684x"
    samples = samples.CONVOLUTIONS


class TestSums(KernelConformance):
    chip = "bm1684x"
    samples = samples.SUMS


class TestProducts(KernelConformance):
    chip = "bm1684x"
    samples = samples.PRODUCTS


class TestActivations(KernelConformance):
    chip = "bm1684x"
    samples = samples.ACTIVATIONS


class TestMoves(KernelConformance):
    chip = "bm1684x"
    samples = samples.MOVES


class TestReductions(KernelConformance):
    chip = "bm1684x"
    samples = samples.REDUCTIONS
