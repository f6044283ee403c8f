"""Every kernel against its op's evaluation, in the simulator, under the chosen and under forced tilings."""

from __future__ import annotations

import pytest
from tpuc.registry import Registry
from tpuc.testing.kernel_conformance import KernelConformance, compile_kernels

from tests.chips.bm1684x.kernels import samples
from tests.chips.bm1684x.kernels.generated import KINDS, generated


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


@pytest.mark.parametrize("kind", KINDS)
def test_generated_samples_equal_the_evaluation(kind: str) -> None:
    registry = Registry()
    compiled = compile_kernels(generated(kind, 40), "bm1684x", registry)
    compiled.compare(registry.get("tpuc.chips", "bm1684x").load(compiled.data, kind).run(compiled.inputs))
