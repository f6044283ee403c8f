"""Attention heads: split and merged within the lanes of local memory, with the values of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_driver.session import Session

from tests.conftest import RunVendor
from tests.families import each
from tests.turns import in_turn

onnxruntime = pytest.importorskip("onnxruntime")

Arrays = dict[str, NDArray[Any]]


class Shape(NamedTuple):
    """Extents of attention over `batch` sequences."""

    batch: int
    rows: int
    heads: int
    width: int


SHAPES = {
    "one sequence": Shape(1, 40, 3, 16),
    "more rows than lanes": Shape(1, 150, 2, 12),
    "windows": Shape(5, 49, 3, 8),
    "sequences with more rows than lanes": Shape(3, 70, 2, 10),
}
MODES = ("f16", "int8", "f32", "bf16")
LIMITS = {"f32": 1e-5, "f16": 4e-3, "bf16": 3e-2}
"""Of the range, against floats. In int8 a weight of one in 150 rows is less than a step or two."""


def network(shape: Shape) -> bytes:
    """Attention as exporters write it, with a product around it on each side."""
    random = np.random.default_rng(3)
    nodes: list[NodeProto] = []
    weights: list[TensorProto] = []
    total = shape.heads * shape.width

    def constant(name: str, array: NDArray[Any]) -> str:
        weights.append(numpy_helper.from_array(array, name))
        return name

    def node(kind: str, inputs: list[str], name: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def linear(x: str, name: str) -> str:
        matrix = random.normal(0, total**-0.5, (total, total)).astype(np.float32)
        return node("MatMul", [x, constant(f"{name}_w", matrix)], name)

    def heads(name: str, order: list[int]) -> str:
        apart = constant(f"{name}_dims", np.array([0, 0, shape.heads, shape.width], np.int64))
        return node(
            "Transpose", [node("Reshape", [linear("x", name), apart], f"{name}_apart")], f"{name}_t", perm=order
        )

    scale = constant("scale", np.array(shape.width**-0.5, np.float32))
    query = node("Mul", [heads("q", [0, 2, 1, 3]), scale], "scaled")
    scores = node("MatMul", [query, heads("k", [0, 2, 3, 1])], "scores")
    soft = node("Softmax", [scores], "soft", axis=-1)
    mixed = node("MatMul", [soft, heads("v", [0, 2, 1, 3])], "mixed")
    back = node("Transpose", [mixed], "back", perm=[0, 2, 1, 3])
    joined = node("Reshape", [back, constant("joined", np.array([0, 0, total], np.int64))], "merged")
    dims = [shape.batch, shape.rows, total]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name in ("x", linear(joined, "y")))
    graph = helper.make_graph(nodes, "net", [x], [y], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()


def build(shape: Shape, mode: str, work: Path) -> tuple[Session, Module, bytes, Arrays]:
    path = work / "net.onnx"
    path.write_bytes(network(shape))
    dims = (shape.batch, shape.rows, shape.heads * shape.width)
    inputs = {"x": np.random.default_rng(1).normal(0, 1, dims).astype(np.float32)}
    np.savez(work / "samples.npz", x=inputs["x"])
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    samples = work / "samples.npz"
    table = session.calibrate(module, dataset=samples, options={"tune_num": 0}) if mode == "int8" else None
    final, data, *_ = session.build(module, table)
    return session, final, data, inputs


@each(("name", "mode"), in_turn({name: name for name in SHAPES}, MODES, lambda _: "heads"))
def test_heads_stay_in_local_memory(name: str, mode: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    session, final, data, inputs = build(shape, mode, tmp_path)
    loaded = session.chip.load(data)
    [got] = loaded.run(inputs).values()  # hazards are errors
    runtime = onnxruntime.InferenceSession(network(shape), providers=["CPUExecutionProvider"])
    [wanted] = runtime.run(None, inputs)
    assert mode == "int8" or np.abs(got - wanted).max() <= LIMITS[mode] * np.ptp(wanted)
    [stated] = Interpreter(final).run(inputs).values()
    order = {"int8": 0, "f16": 2**-9, "bf16": 2**-6, "f32": 2**-20}[mode]  # sums of floats depend on their order
    assert np.abs(got - stated.reshape(got.shape)).max() <= order * np.ptp(wanted)
    commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
    assert sum(loaded.ddr_bytes(command)[1] for command in commands) == got.nbytes  # nothing else leaves local memory


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f16", "int8"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_vendors_model_agrees_on_heads(name: str, mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, _, data, inputs = build(SHAPES[name], mode, tmp_path)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    [got] = run_vendor(path, inputs).values()
    [own] = session.chip.load(data).run(inputs).values()
    assert np.array_equal(got.reshape(-1), own.reshape(-1))
