"""Attention whose fully masked rows are 0, as PyTorch and ONNX write it, on chips that hold no infinities."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.families import each

FORMS = ("IsNaN", "IsInf", "Equal")
RUNS = [
    ("bm1684x", "f32"),
    ("bm1684x", "f16"),
    ("bm1684x", "int8"),
    ("cv181x", "bf16"),
    ("cv181x", "int8"),
    ("c", "f32"),
]
SHAPE = (1, 2, 6, 6)
NEAR = {"f32": 1e-6, "f16": 1e-3, "bf16": 8e-3, "int8": 2e-2}
"""Of shares: some units in the last place below 1, or a few steps of 1/127."""


def write(path: Path, form: str) -> Path:
    """`softmax(x + bias)`, 0 where it is NaN, or where the largest bias of the row is infinite."""
    nodes = [
        helper.make_node("Where", ["keep", "zero", "infinite"], ["bias"]),
        helper.make_node("Add", ["x", "bias"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["p"], axis=-1),
    ]
    if form == "IsNaN":
        nodes.append(helper.make_node("IsNaN", ["p"], ["hidden"]))
    else:
        nodes.append(helper.make_node("ReduceMax", ["bias"], ["most"], axes=[-1], keepdims=1))
        inputs = ["most"] if form == "IsInf" else ["most", "infinite"]
        attributes = {"detect_positive": 0} if form == "IsInf" else {}
        nodes.append(helper.make_node(form, inputs, ["hidden"], **attributes))
    nodes.append(helper.make_node("Where", ["hidden", "zero", "p"], ["y"]))
    weights = {"zero": np.array(0, np.float32), "infinite": np.array(-np.inf, np.float32)}
    graph = helper.make_graph(
        nodes,
        "guarded",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE),
            helper.make_tensor_value_info("keep", TensorProto.BOOL, SHAPE[2:]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, SHAPE)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@each(("chip", "mode"), [pytest.param(*run, marks=pytest.mark.chip(run[0])) for run in RUNS])
def test_hidden_rows_are_zero(chip: str, mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(11)
    samples = tmp_path / "samples"
    samples.mkdir()
    for index in range(12):
        np.savez(
            samples / f"{index:02}.npz",
            x=random.normal(size=SHAPE).astype(np.float32),
            keep=np.tril(np.ones(SHAPE[2:], bool)),
        )
    x, keep = random.normal(size=SHAPE).astype(np.float32), random.integers(0, 2, SHAPE[2:]).astype(bool)
    keep[[1, 4]] = False
    keep[[0, 2, 3, 5], 2] = True
    wrong: list[str] = []
    for form in FORMS:
        path, target = write(tmp_path / f"{form}.onnx", form), tmp_path / f"{form}.bin"
        session = Session(chip=chip, quantize=mode)
        if mode == "int8":
            session.compile(path, target, dataset=samples)
            loaded = session.chip.load(target.read_bytes())
        else:
            loaded = session.chip.load(session.build(session.transform(path)).data)
        (got,) = loaded.run({"x": x, "keep": keep.astype(np.float32)}).values()
        (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"x": x, "keep": keep})
        got = got.reshape(wanted.shape)
        if (got[:, :, [1, 4]] != 0).any() or np.abs(got - wanted).max() > NEAR[mode]:
            wrong.append(
                f"{form}: off by {np.abs(got - wanted).max():.3g}, hidden {np.abs(got[:, :, [1, 4]]).max():.3g}"
            )
    assert not wrong, wrong
