"""Inputs at the ends of float32: CV18xx has no infinity, so they are its largest numbers, with their signs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tpuc
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.families import each

LARGEST = np.float32(2.0**128 - 2.0**120)
HALF_UP = np.uint32(0x8000)
FEW, ROWS = 16, 12
FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Relu": ("Relu", ()),
    "Neg": ("Neg", ()),
    "Abs": ("Abs", ()),
    "Clip": ("Clip", ("low", "high")),
    "Greater": ("Greater", ("zero",)),
    "Less": ("Less", ("zero",)),
    "Min": ("Min", ("zero",)),
    "Max": ("Max", ("zero",)),
    "Mul": ("Mul", ("half",)),
    "Sign": ("Sign", ()),
    "Where": ("Where", ("some", "zero")),
    "MaxPool": ("MaxPool", ()),
}


def _inputs() -> NDArray[np.float32]:
    """The ends, and random numbers of all sizes whose halves are no denormals, which are 0."""
    ends = np.array([0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x7F7EFFFF, 0x7F000000, 0x7EFF8000, 0x7F7F8001], np.uint32)
    bits = np.random.default_rng(5).integers(0x01000000, 0x7F800000, FEW * ROWS, np.uint32)
    bits[: 2 * len(ends)] = np.concatenate([ends, ends])
    bits[len(ends) :: 2] |= np.uint32(1 << 31)
    bits[: len(ends)] &= np.uint32(0x7FFFFFFF)
    bits[len(ends) : 2 * len(ends)] |= np.uint32(1 << 31)
    return bits.view(np.float32).reshape(1, 1, ROWS, FEW)


def _model() -> onnx.ModelProto:
    dims = (1, 1, ROWS, FEW)
    some = np.random.default_rng(6).random(dims) < 0.5
    numbers = {"low": -3e38, "high": 3e38, "zero": 0.0, "half": 0.5}
    constants = {name: np.array(number, np.float32) for name, number in numbers.items()}
    nodes, outputs = list[onnx.NodeProto](), list[onnx.ValueInfoProto]()
    for name, (kind, others) in FORMS.items():
        given = ["x", *others] if kind != "Where" else ["some", "x", "zero"]
        extra: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]} if kind == "MaxPool" else {}
        compares = kind in ("Greater", "Less")
        nodes.append(helper.make_node(kind, given, [f"{name}_b" if compares else name], **extra))
        if compares:
            nodes.append(helper.make_node("Cast", [f"{name}_b"], [name], to=TensorProto.FLOAT))
        outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    weights = [numpy_helper.from_array(one, name) for name, one in {**constants, "some": some}.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)
    graph = helper.make_graph(nodes, "large", [x], outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _stored(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest finite bf16 numbers."""
    with np.errstate(over="ignore"):
        near = (x.view(np.uint32) + HALF_UP & np.uint32(0xFFFF0000)).view(np.float32)
    return np.clip(near, -LARGEST, LARGEST)


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("cv181x", "cv183x")])
@pytest.mark.filterwarnings("ignore::tpuc.Remark")
def test_inputs_beyond_bf16_are_its_largest_numbers(chip: str, tmp_path: Path) -> None:
    model, x = _model(), _inputs()
    (path := tmp_path / "large.onnx").write_bytes(model.SerializeToString())
    got = tpuc.load(path).compile(chip, mode="bf16").run({"x": x})
    stored = _stored(x)
    session = pytest.importorskip("onnxruntime").InferenceSession(model.SerializeToString())
    wanted = dict(zip(FORMS, session.run(list(FORMS), {"x": stored}), strict=True))
    step = 2.0**-8
    off = {name: np.abs(got[name].astype(float) - want) > step * np.abs(want) for name, want in wanted.items()}
    assert {name: int(wrong.sum()) for name, wrong in off.items() if wrong.any()} == {}
