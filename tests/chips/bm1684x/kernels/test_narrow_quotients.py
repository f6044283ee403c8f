"""Sigmoid and SiLU of every 16-bit float, against numpy in float64: results are nearly always the nearest numbers."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from tpuc.registry import Registry
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.families import each

Array = NDArray[Any]

TYPES: dict[str, tuple[Any, int]] = {"f16": (np.float16, 10), "bf16": (ml_dtypes.bfloat16, 7)}
"""Bits of the fraction by type."""
LEAST = {"f16": -24, "bf16": -125}
"""Exponents of the smallest steps that count: numbers of bf16 below 2**-126 are 0 on the chip."""
EVERY, ODD = (1, 64, 1024), (3, 67, 5)
SATURATED = 80.0
"""Larger exponents are limited to this: e**-80 stands for 0."""
BOUND = 0.53
"""Steps; rounding alone is half a step, and the steps before it lose 1.2e-5 of the value, 0.025 steps of f16."""


def numbers(kind: str) -> Array:
    """All finite ones, and zeros in the places of the others."""
    found = np.arange(1 << 16, dtype=np.uint16).view(TYPES[kind][0]).copy()
    found[~np.isfinite(found.astype(np.float32))] = 0
    return found


def wanted(mode: str, x: Array) -> Array:
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(-x))
    return sigmoid if mode == "SIGMOID" else x * sigmoid


@each("kind", TYPES)
def test_quotients_of_all_numbers_are_rounded_once(kind: str) -> None:
    every = numbers(kind)
    inputs = {"every": every.reshape(EVERY), "odd": every[:: 1 << 6][: 3 * 67 * 5].reshape(ODD)}
    samples = {
        f"{mode}_{name}": Sample(tpu.Active(mode=mode), [x], None, ())
        for mode in ("SIGMOID", "SILU")
        for name, x in inputs.items()
    }
    registry = Registry()
    compiled = compile_kernels(samples, "bm1684x", registry)
    found = registry.get("tpuc.chips", "bm1684x").load(compiled.data, "quotients").run(compiled.inputs)
    for name in samples:
        mode, _, which = name.partition("_")
        want = wanted(mode, inputs[which].astype(np.float64)).reshape(-1)
        got = found[name].astype(np.float64).reshape(-1)
        exponents = np.floor(np.log2(np.maximum(np.abs(want), 2.0 ** LEAST[kind])))
        steps = 2.0 ** np.maximum(exponents - TYPES[kind][1], LEAST[kind])
        errors = (np.abs(got - want) / steps)[np.abs(inputs[which].astype(np.float64).reshape(-1)) < SATURATED]
        assert errors.size > len(want) / 2
        assert errors.max() <= BOUND, name
