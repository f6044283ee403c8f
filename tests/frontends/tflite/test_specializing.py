"""`--fix-input` and `--input-names` of TFLite files; the numbers are computed here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImportOptions, UsageError
from tpuc.interpreter import Interpreter

from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import read


def network() -> bytes:
    """`y = max(x + s, 0) * w`."""
    x, s, a, b, y = (Tensor(name, (2, 3), "FLOAT32") for name in "xsaby")
    w = constant("w", np.array([1, -2, 3], np.float32))
    nodes = [
        Node("ADD", ["x", "s"], ["a"], ("AddOptions", {})),
        Node("RELU", ["a"], ["b"]),
        Node("MUL", ["b", "w"], ["y"], ("MulOptions", {})),
    ]
    return tflite_file([x, s, a, b, w, y], nodes, ["x", "s"], ["y"])


def test_a_fixed_input(tmp_path: Path) -> None:
    module = read(network(), tmp_path, ImportOptions(fixed_inputs={"s": "0.5"}))
    x = np.array([[-1, 0, 1], [2, -3, 4]], np.float32)
    y = Interpreter(module).run({"x": x})["y"]
    assert np.array_equal(y, np.maximum(x + 0.5, 0) * np.array([1, -2, 3], np.float32))


def test_a_network_cut_at_its_front(tmp_path: Path) -> None:
    module = read(network(), tmp_path, ImportOptions(input_names=("b",)))
    interpreter = Interpreter(module)
    assert [*interpreter.inputs] == ["b"]
    b = np.array([[-1, 0, 1], [2, -3, 4]], np.float32)
    assert np.array_equal(interpreter.run({"b": b})["y"], b * np.array([1, -2, 3], np.float32))


def test_a_quantized_input_takes_the_number_that_is_meant(tmp_path: Path) -> None:
    x, s, y = (Tensor(name, (2, 3), "INT8", None, (0.1,), (-20,)) for name in "xsy")
    content = tflite_file([x, s, y], [Node("ADD", ["x", "s"], ["y"], ("AddOptions", {}))], ["x", "s"], ["y"])
    module = read(content, tmp_path, ImportOptions(fixed_inputs={"s": "1.5"}))
    stored = np.array([[-20, -10, 0], [10, 20, 30]], np.int8)
    assert np.array_equal(Interpreter(module).run({"x": stored})["y"], stored + 15)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (ImportOptions(input_names=("bb",)), "has no tensor named 'bb' (--input-names). Did you mean 'b'?"),
        (ImportOptions(fixed_inputs={"z": 1}), "has no input named 'z' (--fix-input). Its inputs are x, s."),
    ],
)
def test_refusals(tmp_path: Path, options: ImportOptions, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        read(network(), tmp_path, options)
    assert str(caught.value).endswith(sentence)
