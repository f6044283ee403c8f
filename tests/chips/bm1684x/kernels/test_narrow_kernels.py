"""Kernels of 16-bit floats and of integers with zero points against the evaluation of their ops, in the simulator."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tpuc.registry import Registry
from tpuc_testing.kernel_conformance import KernelConformance, Sample, compile_kernels

from tests.chips.bm1684x.kernels.narrow_samples import ASYMMETRIC, casts, narrow
from tests.families import each

_EXACT = ("add", "sub", "mul", "relu", "clip", "leaky", "prelu", "max", "concat", "slice", "permute", "pad", "upsample")
"""Data movements and arithmetic with one rounding."""


TURNS = 4
QUICK = {("f16", 0), ("bf16", 2)}


class TestAsymmetric(KernelConformance):
    chip = "bm1684x"
    samples = ASYMMETRIC


@each(
    ("kind", "turn"),
    [
        pytest.param(kind, turn, marks=() if (kind, turn) in QUICK else pytest.mark.slow)
        for kind in ("f16", "bf16")
        for turn in range(TURNS)
    ],
)
def test_narrow_floats_equal_the_evaluation(kind: str, turn: int) -> None:
    """Every fourth sample; the quick run takes half of them, each in one of the two kinds."""
    errors = _run(dict(list(narrow(kind).items())[turn::TURNS]))
    exact = {name: error for name, error in errors.items() if name.startswith(_EXACT)}
    assert len(exact) > 7
    assert not any(exact.values()), exact


@each("kind", ["f16", "bf16"])
def test_casts_of_narrow_floats_are_exact(kind: str) -> None:
    assert not any(_run(casts(kind)).values())


def _run(cases: Mapping[str, Sample]) -> dict[str, float]:
    registry = Registry()
    compiled = compile_kernels(cases, "bm1684x", registry)
    return compiled.compare(registry.get("tpuc.chips", "bm1684x").load(compiled.data).run(compiled.inputs))
