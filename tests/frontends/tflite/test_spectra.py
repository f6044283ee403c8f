"""Fourier transforms, and shapes computed in the file, against LiteRT."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, read, values
from tests.frontends.tflite.test_refusals import sentence

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")

Array = NDArray[Any]


def both(tensors: Sequence[Tensor], nodes: Sequence[Node], folder: Path) -> tuple[Array, Array]:
    """What LiteRT and the module give as `y` for an operand `x`."""
    content = tflite_file(tensors, nodes, ["x"], ["y"])
    given = values(*next(one.shape for one in tensors if one.name == "x"))
    interpreter = litert.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
    interpreter.invoke()
    (ours,) = compute(read(content, folder), given)
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]), ours


def spectrum(rows: tuple[int, ...], length: int, last: str) -> tuple[list[Tensor], list[Node]]:
    """A transform of the last axis, a SQUEEZE of the axis of single rows, and `last`, which makes real numbers."""
    whole, flat = (*rows[:-1], length // 2 + 1), (*rows[:-2], length // 2 + 1)
    tensors = [
        Tensor("x", rows),
        constant("n", np.array([1, length], np.int32)),
        Tensor("f", whole, "COMPLEX64"),
        Tensor("s", flat, "COMPLEX64"),
        Tensor("y", flat),
    ]
    squeeze = ("SqueezeOptions", {"SqueezeDims": (len(rows) - 2,)})
    return tensors, [
        Node("RFFT2D", ["x", "n"], ["f"], ("Rfft2dOptions", {})),
        Node("SQUEEZE", ["f"], ["s"], squeeze),
        Node(last, ["s"], ["y"]),
    ]


@each("last", ["CAST", "REAL", "IMAG", "COMPLEX_ABS"])
@each(("rows", "length"), [((1, 3, 1, 16), 16), ((2, 1, 32), 16), ((1, 1, 10), 16)])
def test_transforms_of_rows(rows: tuple[int, ...], length: int, last: str, tmp_path: Path) -> None:
    expected, ours = both(*spectrum(rows, length, last), tmp_path)
    # Sums of 32 products in float32, in another order.
    np.testing.assert_allclose(ours, expected, rtol=1e-4, atol=1e-4)


def test_complex_results_are_refused(tmp_path: Path) -> None:
    tensors, nodes = spectrum((1, 1, 16), 16, "REAL")
    assert "it computes complex numbers" in sentence(tflite_file(tensors, nodes[:1], ["x"], ["f"]), tmp_path)


def test_stated_shapes_behind_computed_ones_are_stale(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", (1, 12)),
        Tensor("shape", (2,), "INT32"),
        constant("sizes", np.array([1, -1], np.int32)),
        constant("axis", np.array(0, np.int32)),
        Tensor("batch", (1,), "INT32"),
        Tensor("length", (1,), "INT32"),
        constant("two", np.array([2], np.int32)),
        Tensor("half", (1,), "INT32"),
        Tensor("end", (2,), "INT32"),
        constant("zeros", np.zeros(2, np.int32)),
        constant("ones", np.ones(2, np.int32)),
        Tensor("part", (1, 1)),
        Tensor("y", (1, 1)),
    ]
    nodes = [
        Node("SHAPE", ["x"], ["shape"], ("ShapeOptions", {"OutType": 2})),
        Node("SPLIT_V", ["shape", "sizes", "axis"], ["batch", "length"], ("SplitVOptions", {"NumSplits": 2})),
        Node("FLOOR_DIV", ["length", "two"], ["half"]),
        Node("CONCATENATION", ["batch", "half"], ["end"], ("ConcatenationOptions", {"Axis": 0})),
        Node("STRIDED_SLICE", ["x", "zeros", "end", "ones"], ["part"], ("StridedSliceOptions", {})),
        Node("ABS", ["part"], ["y"]),
    ]
    expected, ours = both(tensors, nodes, tmp_path)
    np.testing.assert_array_equal(ours, expected)
    assert ours.shape == (1, 6)
