"""Tangents, arcs and hyperbolic functions over their whole ranges, against numpy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.registry import Registry
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.families import each

Array = NDArray[Any]


def line(low: float, high: float) -> Array:
    return np.linspace(low, high, 640, dtype=np.float32).reshape(1, 64, 10)


def magnitudes(low: float, high: float) -> Array:
    """From far below 1 to far above it, with both signs."""
    values = np.geomspace(low, high, 320).astype(np.float32)
    return np.concatenate([values, -values]).reshape(1, 64, 10)


RANGES = {
    "ARCCOS": (np.arccos, [line(-1, 1), magnitudes(1e-6, 1)]),
    "ARCSIN": (np.arcsin, [line(-1, 1), magnitudes(1e-6, 1)]),
    "ARCTAN": (np.arctan, [line(-3, 3), magnitudes(1e-6, 1e6)]),
    "ARCTANH": (np.arctanh, [line(-0.999, 0.999), magnitudes(1e-6, 0.9)]),
    "ARCSINH": (np.arcsinh, [line(-3, 3), magnitudes(1e-6, 1e18)]),
    "ARCCOSH": (np.arccosh, [line(1.001, 4), 1 + np.abs(magnitudes(1e-3, 1e17))]),
    "SINH": (np.sinh, [line(-3, 3), magnitudes(1e-6, 88)]),
    "COSH": (np.cosh, [magnitudes(1e-6, 88)]),
    "TAN": (np.tan, [line(-1.5, 1.5), line(-20, 20)]),
}


@pytest.fixture(scope="module")
def results() -> dict[str, Array]:
    samples = {
        f"{mode}{index}": Sample(tpu.Active(mode=mode), [x], None, ())
        for mode, (_, operands) in RANGES.items()
        for index, x in enumerate(operands)
    }
    registry = Registry()
    compiled = compile_kernels(samples, "bm1684x", registry)
    return dict(registry.get("tpuc.chips", "bm1684x").load(compiled.data, "functions").run(compiled.inputs))


@each("mode", RANGES)
def test_functions_are_within_four_millionths(mode: str, results: dict[str, Array]) -> None:
    function, operands = RANGES[mode]
    for index, x in enumerate(operands):
        wanted = function(x.astype(np.float64))
        found = results[f"{mode}{index}"].reshape(wanted.shape)
        # The exponential of 88 is rounded once for each power of two that it is made of.
        assert np.abs(found - wanted).max(where=wanted == 0, initial=0) <= 1e-7
        assert (np.abs(found - wanted) <= 4e-6 * np.abs(wanted) + 1e-7 * (wanted == 0)).all()
