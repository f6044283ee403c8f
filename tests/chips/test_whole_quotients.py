"""Quotients of integers are whole numbers on chips that divide by a reciprocal: 6 / 2 is 3, not 2."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, tflite_file

KINDS = ("uint8", "int8", "int16", "int32", "uint32", "int64")
RUNS = [("bm1684x", "f32"), ("bm1684x", "f16"), ("cv181x", "bf16"), ("c", "f32")]
LARGEST = {"f32": 1000, "f16": 60, "bf16": 60}
"""Of dividends, which the mode holds together with one half."""


@each(("chip", "mode"), [pytest.param(*run, marks=pytest.mark.chip(run[0])) for run in RUNS])
def test_integers_are_divided_as_onnx_runtime_does(chip: str, mode: str, tmp_path: Path) -> None:
    wrong: list[str] = []
    for kind in KINDS:
        largest = min(LARGEST[mode], np.iinfo(kind).max)
        random = np.random.default_rng(7)
        right = random.integers(1, 30, (2, 12, 8))
        left = right * random.integers(0, max(largest // 30, 2), right.shape) + random.integers(0, 2, right.shape)
        left = np.minimum(left, largest)
        if not kind.startswith("u"):
            left, right = (one * random.choice([-1, 1], one.shape) for one in (left, right))
        inputs = {"a": left.astype(kind), "b": right.astype(kind)}
        element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        ends = [helper.make_tensor_value_info(name, element, left.shape) for name in "aby"]
        graph = helper.make_graph([helper.make_node("Div", ["a", "b"], ["y"])], "whole", ends[:2], ends[2:])
        path = tmp_path / f"{kind}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, inputs)
        session = Session(chip=chip, quantize=mode)
        loaded = session.chip.load(session.build(session.transform(path)).data)
        (got,) = loaded.run({name: array.astype(np.float32) for name, array in inputs.items()}).values()
        off = int((got.reshape(wanted.shape) != wanted).sum())
        wrong += [f"{kind}: {off} of {wanted.size}"] if off else []
    assert not wrong, wrong


@each(("chip", "mode"), [pytest.param(*run, marks=pytest.mark.chip(run[0])) for run in RUNS])
def test_integers_are_divided_as_tflite_does(chip: str, mode: str, tmp_path: Path) -> None:
    random, wrong = np.random.default_rng(9), list[str]()
    right = random.integers(1, 30, (12, 16))
    left = np.minimum(right * random.integers(0, LARGEST[mode] // 30, right.shape), LARGEST[mode] - 1)
    left += random.integers(0, 2, right.shape)
    inputs = {"a": left * random.choice([-1, 1], left.shape), "b": right * random.choice([-1, 1], left.shape)}
    results = {
        "FLOOR_DIV": inputs["a"] // inputs["b"],
        "FLOOR_MOD": inputs["a"] % inputs["b"],
        "DIV": np.trunc(inputs["a"] / inputs["b"]).astype(int),
    }
    for op, wanted in results.items():
        path = tmp_path / f"{op}.tflite"
        tensors = [Tensor(name, left.shape, "INT32") for name in "aby"]
        path.write_bytes(
            tflite_file(tensors, [Node(op, ["a", "b"], ["y"], (f"{_camel(op)}Options", {}))], ["a", "b"], ["y"])
        )
        session = Session(chip=chip, quantize=mode)
        loaded = session.chip.load(session.build(session.transform(path)).data)
        (got,) = loaded.run({name: array.astype(np.float32) for name, array in inputs.items()}).values()
        off = int((got.reshape(wanted.shape) != wanted).sum())
        wrong += [f"{op}: {off} of {wanted.size}"] if off else []
    assert not wrong, wrong


def _camel(op: str) -> str:
    return "".join(word.capitalize() for word in op.split("_"))
