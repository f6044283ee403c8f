"""An op of several results: every part of a split keeps its name, in every mode."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.steps import check_steps
from tests.families import each


def write_split(path: Path) -> Path:
    """A split into three unequal parts, of which the outer ones are added up and the middle one is an output."""
    nodes = [
        helper.make_node("Relu", ["image"], ["relu"]),
        helper.make_node("Split", ["relu"], ["first", "second", "third"], axis=1, split=[3, 4, 3]),
        helper.make_node("Add", ["first", "third"], ["sum"]),
        helper.make_node("Sigmoid", ["second"], ["middle"]),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 10, 5, 4))
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("sum", "middle")]
    graph = helper.make_graph(nodes, "split", [image], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


@each("mode", ["f32", "f16", "bf16", "int8", "int8-asym"])
def test_every_part_of_a_split_is_right(mode: str, tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(write_split(tmp_path / "split.onnx"))
    (spec,) = inputs_of(module)
    x = np.random.default_rng(5).normal(size=spec.shape).astype(np.float32)
    table = None
    if mode.startswith("int8"):
        np.savez(tmp_path / "samples.npz", **{spec.name: x})
        table = session.calibrate(module, dataset=tmp_path / "samples.npz", options={"tune_num": 0})
    final, data = build_exposed(session, module, table)
    values = dict(session.chip.load(data).run({spec.name: x})) | {spec.name: x}
    assert check_steps(final, values)
    assert {"first", "second", "third"} <= values.keys()
    if mode == "f32":
        relu = np.maximum(x, 0)
        assert np.array_equal(values["sum"], relu[:, :3] + relu[:, 7:])
