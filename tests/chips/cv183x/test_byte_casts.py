"""Casts to integers of 8 bits keep the low bits of every whole number: ONNX Runtime's results in bf16 and int8."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
import tpuc
from onnx import TensorProto, helper

TYPES = {"UINT8": TensorProto.UINT8, "INT8": TensorProto.INT8}
SHAPES = ((1, 7), (2, 3, 5), (3, 70, 2, 3), (2, 1, 33))


def _write(path: Path, kind: str, shape: tuple[int, ...], is_last: bool) -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["minus"]),
        helper.make_node("Cast", ["minus"], ["whole"], to=TensorProto.INT32),
        helper.make_node("Cast", ["whole"], ["byte"], to=TYPES[kind]),
    ]
    if not is_last:
        nodes += [
            helper.make_node("Cast", ["byte"], ["wide"], to=TensorProto.FLOAT),
            helper.make_node("Neg", ["wide"], ["y"]),
        ]
    outputs = [helper.make_tensor_value_info("byte" if is_last else "y", TYPES[kind] if is_last else 1, shape)]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "casts", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path)


@pytest.mark.parametrize("chip", ["cv183x", "cv181x"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("is_last", [True, False], ids=["last", "inside"])
def test_low_bits(chip: str, shape: tuple[int, ...], kind: str, is_last: bool, tmp_path: Path) -> None:
    path = tmp_path / "casts.onnx"
    _write(path, kind, shape, is_last)
    random = np.random.default_rng(len(shape))
    x = (random.normal(0, 1, shape) * random.choice([1, 60, 300, 5000], shape)).astype(ml_dtypes.bfloat16)
    edges = np.array([0, -0.5, 127, 127.5, 128, 255, 256, 257, -1, -127, -128, -129, -255, -256], ml_dtypes.bfloat16)
    x.reshape(-1)[: edges.size] = edges[: x.size]
    inputs = {"x": x.astype(np.float32)}
    (wanted,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    (found,) = tpuc.load(path).compile(chip, mode="bf16").run(inputs).values()
    assert np.array_equal(np.asarray(found, np.float64), wanted.astype(np.float64))


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@pytest.mark.parametrize("kind", TYPES)
def test_steps_of_int8(kind: str, tmp_path: Path) -> None:
    """A step of the input, which may be cut off, and half of one of 255 in the result, around the circle of 256."""
    path = tmp_path / "casts.onnx"
    _write(path, kind, (2, 127), False)
    inputs = {"x": np.stack([np.arange(127), -np.arange(127)]).astype(np.float32)}
    (wanted,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, inputs)
    network = tpuc.load(path).quantize({"x": inputs["x"][None]}, tune_num=0, bias_num=0)
    (found,) = network.compile("cv183x").run(inputs).values()
    off = (np.asarray(found) - wanted + 128) % 256 - 128
    assert np.abs(off).max() <= 2.01
