"""Networks of many nodes, and loops of as many steps as are written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_importing.obstacles import ImportRefused

from tests.families import each
from tests.frontends.onnx.networks import assert_same, network, node, ops, read, values

RATIO = np.float32(0.999)


def _optimized(model: onnx.ModelProto, folder: Path) -> Interpreter:
    path = folder / "long.onnx"
    onnx.save(model, path)
    return Interpreter(Session().transform(path))


def test_chain_of_1500_products(tmp_path: Path) -> None:
    nodes = [node("Mul", f"x{index} k", f"x{index + 1}") for index in range(1500)]
    model = network(nodes, {"x0": [1, 4]}, ["x1500"], {"k": np.array(RATIO)})
    given = {"x0": values(1, 4)}
    expected = given["x0"]
    for _ in range(1500):
        expected = expected * RATIO
    np.testing.assert_array_equal(_optimized(model, tmp_path).run(given)["x1500"], expected)


def test_products_of_many_factors(tmp_path: Path) -> None:
    """Every factor is computed; the last sum keeps the result from vanishing."""
    count = 1000
    nodes = [one for i in range(count) for one in (node("Cos", "x0", f"c{i}"), node("Mul", f"x{i} c{i}", f"x{i + 1}"))]
    model = network([*nodes, node("Add", f"x{count} x0", "y")], {"x0": [1, 4]}, ["y"])
    given = {"x0": values(1, 4)}
    expected = given["x0"] + given["x0"] * np.cos(given["x0"].astype(np.float64)) ** count
    np.testing.assert_allclose(_optimized(model, tmp_path).run(given)["y"], expected, rtol=0, atol=1e-5)


def _loop(steps: int) -> onnx.ModelProto:
    """Multiply `steps` times, and collect what comes out."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["going"], ["goes_on"]),
            helper.make_node("Mul", ["v", "k"], ["w"], name="m"),
            helper.make_node("Identity", ["w"], ["row"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("going", TensorProto.BOOL, []),
            helper.make_tensor_value_info("v", TensorProto.FLOAT, [2, 3]),
        ],
        [onnx.ValueInfoProto(name=name) for name in ("goes_on", "w", "row")],
        [numpy_helper.from_array(np.array(RATIO), "k")],
    )
    loop = node("Loop", "steps - x", "y rows", body=body)
    return network([loop], {"x": [2, 3]}, ["y", "rows"], {"steps": np.array(steps, np.int64)}, opset=17)


def test_loops_up_to_the_limit(tmp_path: Path) -> None:
    steps = 1024
    model = _loop(steps)
    module = read(model, tmp_path)
    assert ops(module).count("MulConst") == steps
    assert_same(model, module)
    rows = _optimized(model, tmp_path).run({"x": values(2, 3)})["rows"]
    del model.graph.output[1]  # then every product has one user
    np.testing.assert_array_equal(_optimized(model, tmp_path).run({"x": values(2, 3)})["y"], rows[-1])


@each("steps", [1025, 1 << 62])
def test_loops_beyond_the_limit(steps: int, tmp_path: Path) -> None:
    with pytest.raises(ImportRefused, match=r"\(Loop\): it runs more than 1024 steps, too many to unroll"):
        read(_loop(steps), tmp_path)
