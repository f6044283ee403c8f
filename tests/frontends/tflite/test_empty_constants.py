"""Constants of no elements, whose buffers look like those of values that the network computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, read, values

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")

NO_NUMBERS = np.zeros(0, np.int32)
ROW = Tensor("x", (1, 4))
ONE = Tensor("x", (1, 1))


@each(
    ("x", "nothing", "y", "node"),
    [
        (ONE, NO_NUMBERS, (), Node("RESHAPE", ["x", "c"], ["y"], ("ReshapeOptions", {}))),
        (ROW, NO_NUMBERS, (1, 4), Node("SUM", ["x", "c"], ["y"], ("ReducerOptions", {"KeepDims": True}))),
        (ROW, NO_NUMBERS, (1, 4), Node("REDUCE_MAX", ["x", "c"], ["y"], ("ReducerOptions", {}))),
        (
            ROW,
            np.zeros((0, 4), np.float32),
            (1, 4),
            Node("CONCATENATION", ["x", "c"], ["y"], ("ConcatenationOptions", {"Axis": 0})),
        ),
        (
            ROW,
            np.zeros((1, 0), np.float32),
            (1, 4),
            Node("CONCATENATION", ["c", "x"], ["y"], ("ConcatenationOptions", {"Axis": 1})),
        ),
    ],
)
def test_a_constant_of_no_elements(
    x: Tensor, nothing: np.ndarray, y: tuple[int, ...], node: Node, tmp_path: Path
) -> None:
    content = tflite_file([x, constant("c", nothing), Tensor("y", y)], [node], ["x"], ["y"])
    given = values(*x.shape)
    interpreter = litert.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], given)
    interpreter.invoke()
    expected = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
    (ours,) = compute(read(content, tmp_path), given)
    np.testing.assert_array_equal(ours.ravel(), expected.ravel())
