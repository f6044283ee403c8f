"""Filters of unsigned bytes whose zero points per channel are far apart: differences of them need nine bits."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tpuc

from tests.families import each
from tests.frontends.quantized.clipping import Array, Graph, runtime

FORMS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], int, dict[str, Any]]] = {
    "conv": ("Conv", (1, 4, 5, 6), (6, 4, 3, 3), 0, {"pads": [1, 1, 1, 1]}),
    "pointwise": ("Conv", (2, 4, 5, 6), (6, 4, 1, 1), 0, {}),
    "grouped": ("Conv", (1, 4, 5, 6), (6, 2, 3, 3), 0, {"group": 2}),
    "depthwise": ("Conv", (1, 4, 5, 6), (4, 1, 3, 3), 0, {"group": 4}),
    "row": ("Conv", (1, 4, 9), (6, 4, 3), 0, {}),
    "transposed": ("ConvTranspose", (1, 4, 5, 6), (4, 6, 3, 3), 1, {"strides": [2, 2]}),
    "gemm": ("Gemm", (3, 20), (7, 20), 0, {"transB": 1}),
    "columns": ("Gemm", (3, 20), (20, 7), 1, {}),
    "matmul": ("MatMul", (2, 3, 20), (20, 7), 1, {}),
}
STEP = 0.05
LIMITS = {"bm1684x": 1.01, "c": 1.01, "cv181x": 2.01}
"""In steps. CV18xx rounds transposed filters of nine bits to eight."""


def _network(
    forms: Iterable[str], lowest: int = 0, points: tuple[int, int] = (0, 255)
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Stored products between casts, side by side, whose channels have zero points between `points`, and bytes from
    `lowest` on.
    """
    random, graph, given = np.random.default_rng(5), Graph(), dict[str, Array]()
    for name in forms:
        op, dims, filters, axis, attributes = FORMS[name]
        outputs = filters[axis]
        parameters = [
            graph.constant(f"{name}_w_scale", random.uniform(0.002, 0.006, outputs).astype(np.float32)),
            graph.constant(f"{name}_w_zero", np.linspace(*points, outputs).astype(np.uint8)),
        ]
        whole = graph.constant(f"{name}_w_i", random.integers(lowest, 256, filters).astype(np.uint8))
        weight = graph.do("DequantizeLinear", [whole, *parameters], f"{name}_w", axis=axis)
        operands = [graph.stored(f"{name}_x", 0.02, np.uint8(120)), weight]
        if name not in ("pointwise", "matmul"):
            operands.append(graph.constant(f"{name}_b", random.normal(size=outputs).astype(np.float32)))
        graph.do(op, operands, name, **attributes)
        graph.stored(name, STEP, np.uint8(128))
        given[f"{name}_x"] = random.normal(size=dims).astype(np.float32)
    dims_of = {name: array.shape for name, array in given.items()}
    results = runtime(graph.model(dims_of, {f"{name}_dq": () for name in forms}), given)
    return graph.model(dims_of, {name: array.shape for name, array in results.items()}), given


def _check(chip: str, model: onnx.ModelProto, given: dict[str, Array], path: Path) -> None:
    onnx.save(model, path)
    wanted, got = runtime(model, given), tpuc.load(path).compile(chip).run(given)
    off = {name: np.abs(got[name].reshape(one.shape) - one).max() / STEP for name, one in wanted.items()}
    assert {name: steps for name, steps in off.items() if steps > LIMITS[chip]} == {}


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in LIMITS])
def test_products_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    _check(chip, *_network(FORMS), tmp_path / "products.onnx")


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@pytest.mark.chip("bm1684x")
def test_filters_may_all_be_above_their_zero_point(tmp_path: Path) -> None:
    """The offset that makes them bytes was -1, which a command reads as 255."""
    _check("bm1684x", *_network(("conv", "gemm", "matmul"), 1, (0, 0)), tmp_path / "products.onnx")
