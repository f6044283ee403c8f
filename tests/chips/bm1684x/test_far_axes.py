"""Softmax, reductions, running sums, and ArgMax along dimensions whose elements lie far apart."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.families import each

onnxruntime = pytest.importorskip("onnxruntime")

Arrays = dict[str, NDArray[Any]]
SHAPES = [(1, 96, 7, 10), (2, 5, 40, 37), (1, 20, 16, 18), (40, 130)]
"""Short runs behind few, behind many, a prime number of columns, matrices."""
OPERATORS = ("Softmax", "ReduceMean", "ReduceMax", "ReduceL2", "CumSum", "ArgMax", "ArgMin")


def network(path: Path, shapes: Sequence[tuple[int, ...]] = SHAPES) -> Arrays:
    """Every operator along every dimension of every shape; returns the inputs."""
    nodes: list[onnx.NodeProto] = []
    sources: list[onnx.ValueInfoProto] = []
    outputs: list[onnx.ValueInfoProto] = []
    constants: list[onnx.TensorProto] = []
    inputs: Arrays = {}
    random = np.random.default_rng(4)
    for number, shape in enumerate(shapes):
        x = f"x{number}"
        sources.append(helper.make_tensor_value_info(x, TensorProto.FLOAT, shape))
        inputs[x] = random.integers(-8, 9, shape).astype(np.float32)
        for axis in range(len(shape)):
            constants.append(numpy_helper.from_array(np.array(axis, np.int64), f"{x}_{axis}"))
            for operator in OPERATORS:
                name = f"{operator}_{number}_{axis}"
                taken, attributes = _form(operator, x, axis)
                nodes.append(helper.make_node(operator, taken, [name], name=name, **attributes))
                kind = TensorProto.INT64 if operator.startswith("Arg") else TensorProto.FLOAT
                outputs.append(helper.make_tensor_value_info(name, kind, None))
    graph = helper.make_graph(nodes, "axes", sources, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return inputs


def _form(operator: str, x: str, axis: int) -> tuple[list[str], dict[str, Any]]:
    if operator == "CumSum":
        return [x, f"{x}_{axis}"], {"exclusive": axis % 2}
    if operator == "Softmax":
        return [x], {"axis": axis}
    if operator.startswith("Arg"):
        return [x], {"axis": axis, "keepdims": axis % 2}
    return [x], {"axes": [axis], "keepdims": axis % 2}


def expected(path: Path, inputs: Arrays) -> Arrays:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, inputs), strict=True))


def test_the_simulator_computes_along_all_dimensions_as_onnx_runtime(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    inputs = network(path, SHAPES[:2])
    session = Session(chip="bm1684x", quantize="f32")
    outputs = session.chip.load(session.build(session.transform(path)).data).run(inputs)
    # A mean adds products of up to 8 / count, each rounded to 24 bits, and may itself be next to 0.
    wrong = [
        name
        for name, value in expected(path, inputs).items()
        if not np.allclose(outputs[name].reshape(-1), value.reshape(-1), rtol=3e-6, atol=4e-6)
    ]
    assert not wrong


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f32", "f16"])
def test_the_vendors_model_equals_the_simulator_along_all_dimensions(
    mode: str, run_vendor: RunVendor, tmp_path: Path
) -> None:
    inputs = network(tmp_path / "net.onnx")
    session = Session(chip="bm1684x", quantize=mode)
    data = session.build(session.transform(tmp_path / "net.onnx")).data
    (tmp_path / "net.bmodel").write_bytes(data)
    theirs, ours = run_vendor(tmp_path / "net.bmodel", inputs), session.chip.load(data).run(inputs)
    assert not [name for name, value in ours.items() if not np.array_equal(theirs[name].reshape(-1), value.reshape(-1))]


@each(
    ("operator", "axis", "shape", "most"),
    [
        ("Softmax", 2, (1, 24, 128, 128), 1.5),
        ("Softmax", 2, (1, 2, 256, 256), 2.0),
        ("Softmax", 1, (1, 256, 14, 14), 2.0),
        ("ReduceMean", 2, (1, 24, 128, 128), 1.5),
        ("CumSum", 1, (1, 128, 256), 2.0),
        ("ArgMax", 1, (1, 256, 14, 14), 2.5),
    ],
)
def test_an_axis_far_apart_costs_about_its_transfers(
    operator: str, axis: int, shape: tuple[int, ...], most: float, tmp_path: Path
) -> None:
    taken, attributes = _form(operator, "x", axis)
    kind = TensorProto.INT64 if operator == "ArgMax" else TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node(operator, taken, ["y"], **attributes)],
        "axis",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.array(axis, np.int64), f"x_{axis}")],
    )
    path = tmp_path / "net.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    session = Session(chip="bm1684x", quantize="f16")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    written = sum(np.prod(output.shape) for output in loaded.outputs)
    assert loaded.timeline("vendor").cycles <= most * 4 * (np.prod(shape) / 54.02 + written / 40.98)
