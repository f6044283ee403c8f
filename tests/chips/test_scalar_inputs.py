"""Networks with inputs of one number and no dimension are calibrated, compiled and run as others are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import tpuc
from onnx import TensorProto, helper, numpy_helper

FORMS = {
    "factor": [helper.make_node("Mul", ["x", "s"], ["y"])],
    "behind a product": [
        helper.make_node("Conv", ["x", "w"], ["c"]),
        helper.make_node("Mul", ["c", "s"], ["d"]),
        helper.make_node("Relu", ["d"], ["y"]),
    ],
    "computed": [helper.make_node("Mul", ["s", "s"], ["q"]), helper.make_node("Add", ["x", "q"], ["y"])],
    "by a table": [helper.make_node("Sigmoid", ["s"], ["q"]), helper.make_node("Sub", ["q", "x"], ["y"])],
    "result": [helper.make_node("Mul", ["x", "s"], ["d"]), helper.make_node("ReduceMean", ["d"], ["y"], keepdims=0)],
}
LEAST_DB = 20

pytestmark = pytest.mark.filterwarnings("ignore::tpuc.Remark")


def network(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
    weight = np.random.default_rng(3).normal(0, 0.3, (4, 3, 3, 3)).astype(np.float32)
    shapes: dict[str, tuple[int, ...]] = {"x": (1, 3, 6, 6), "s": ()}
    graph = helper.make_graph(
        nodes,
        "scalar",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(weight, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("chip", [pytest.param(one, marks=pytest.mark.chip(one)) for one in ("bm1684x", "cv181x")])
def test_int8_is_near_the_float_network(chip: str, tmp_path: Path) -> None:
    generator, faults = np.random.default_rng(0), list[str]()
    samples = {
        "x": generator.normal(size=(6, 1, 3, 6, 6)).astype(np.float32),
        "s": generator.uniform(0.5, 1.5, 6).astype(np.float32),
    }
    for name, nodes in FORMS.items():
        path = tmp_path / "scalar.onnx"
        onnx.save(network(nodes), path)
        one = {name: np.asarray(array[0]) for name, array in samples.items()}
        (want,) = onnxruntime.InferenceSession(path).run(None, one)
        compiled = tpuc.load(path).quantize(samples).compile(chip)
        (got,) = compiled.run(one).values()
        noise = np.square(got.reshape(-1) - np.asarray(want).reshape(-1)).sum()
        if noise * 10 ** (LEAST_DB / 10) > np.square(want).sum():
            faults.append(name)
    assert faults == []
