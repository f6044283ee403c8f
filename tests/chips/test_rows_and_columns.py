"""Networks over one dimension: convolutions see rows where other ops see columns, and values stay in local memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session

from tests.families import each

Array = NDArray[Any]
CHANNELS = 12
BETWEEN = {
    "relu of a sum": ("Add", "Relu"),
    "sigmoid": ("Sigmoid",),
    "product with itself": ("Mul",),
}
"""The ops between two convolutions; those of two operands take the same value twice."""


def network(names: tuple[str, ...], length: int) -> bytes:
    """A convolution over `length` places, ops, a convolution."""
    random = np.random.default_rng(length)
    weights = [random.normal(0, 0.2, (CHANNELS, CHANNELS, 3)).astype(np.float32) for _ in range(2)]
    stored = [numpy_helper.from_array(weight, f"w{index}") for index, weight in enumerate(weights)]
    nodes = [helper.make_node("Conv", ["x", "w0"], ["v0"], pads=[1, 1])]
    for index, name in enumerate(names):
        operands = [f"v{index}"] * (2 if name in ("Add", "Mul") else 1)
        nodes.append(helper.make_node(name, operands, [f"v{index + 1}"]))
    nodes.append(helper.make_node("Conv", [f"v{len(names)}", "w1"], ["y"], pads=[1, 1]))
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, CHANNELS, length]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@each(
    ("ops", "chip", "mode"),
    [
        ("relu of a sum", "bm1684x", "f16"),
        ("sigmoid", "bm1684x", "int8"),
        ("product with itself", "bm1684x", "f32"),
        ("relu of a sum", "cv181x", "int8"),
    ],
)
def test_values_between_convolutions_stay(ops: str, chip: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(network(BETWEEN[ops], 200))
    session = Session(chip=chip, quantize=mode)
    module = session.transform(path)
    x = np.random.default_rng(1).uniform(-1, 1, (1, CHANNELS, 200)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    options = {"tune_num": 0, "bias_num": 0}
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", options=options) if mode == "int8" else None
    final, data, *_ = session.build(module, table)
    [wanted] = Interpreter(final).run({"x": x}).values()
    loaded = session.chip.load(data)
    [got] = loaded.run({"x": x}).values()  # hazards are errors
    limit = {"int8": 0, "f16": 2**-9, "f32": 2**-20}[mode] * float(np.ptp(wanted))
    assert np.abs(got.reshape(-1).astype(np.float64) - wanted.reshape(-1)).max() <= limit
    [profile, *_] = session.chip.profiles
    commands = [entry.command.instruction for entry in loaded.timeline(profile).entries]
    written = sum(loaded.ddr_bytes(command)[1] for command in commands)
    assert written <= got.size * got.itemsize, "only the result leaves local memory"


@each(("kind", "mode"), [("ReduceMean", "f16"), ("ReduceMax", "int8"), ("ReduceL2", "f32")])
def test_rows_of_images_are_reduced_where_they_are(kind: str, mode: str, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    shape, weight = (1, 40, 5, 9), random.normal(0, 0.2, (40, 40, 1, 1)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["v"]),
        helper.make_node(kind, ["v"], ["r"], axes=[3]),
        helper.make_node("Add", ["v", "r"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], [numpy_helper.from_array(weight, "w")])
    path = tmp_path / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    x = random.uniform(-1, 1, shape).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    options = {"tune_num": 0, "bias_num": 0}
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", options=options) if mode == "int8" else None
    loaded = session.chip.load(session.build(module, table).data)
    [got] = loaded.run({"x": x}).values()  # hazards are errors
    v = np.einsum("nchw,oc->nohw", x.astype(np.float64), weight[..., 0, 0])
    reduced = {"ReduceMean": v.mean(3), "ReduceMax": v.max(3), "ReduceL2": np.sqrt((v**2).sum(3))}[kind]
    wanted = v + reduced[..., None]
    assert np.abs(got - wanted).max() <= {"f16": 4e-3, "int8": 0.03, "f32": 3e-6}[mode] * np.abs(wanted).max()
    commands = [entry.command.instruction for entry in loaded.timeline(session.chip.profiles[0]).entries]
    assert sum(loaded.ddr_bytes(command)[1] for command in commands) == got.size * 4, "only the result is written"


def test_scores_take_one_mask_for_all_heads_where_they_are(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    heads, tokens, width = 3, 40, 64
    shape = (1, heads, tokens, width)
    mask = np.triu(np.full((tokens, tokens), -100, np.float32), 1)
    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Add", ["scores", "mask"], ["masked"]),
        helper.make_node("Softmax", ["masked"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v"], ["y"]),
    ]
    shapes = {"q": shape, "k": (1, heads, width, tokens), "v": shape, "y": shape}
    q, k, v, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, of) for name, of in shapes.items())
    graph = helper.make_graph(nodes, "net", [q, k, v], [y], [numpy_helper.from_array(mask, "mask")])
    path = tmp_path / "net.onnx"
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize="f32")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    inputs = {name: random.normal(0, 1, shapes[name]).astype(np.float32) for name in "qkv"}
    [got] = loaded.run(inputs).values()  # hazards are errors
    scores = np.exp(inputs["q"].astype(np.float64) @ inputs["k"] + mask)
    wanted = scores / scores.sum(-1, keepdims=True) @ inputs["v"]
    assert np.abs(got - wanted).max() <= 1e-5 * np.abs(wanted).max()
    commands = [entry.command.instruction for entry in loaded.timeline(session.chip.profiles[0]).entries]
    assert sum(loaded.ddr_bytes(command)[1] for command in commands) == got.size * 4, "only the result is written"


@each(("kind", "mode"), [("ReduceMean", "f16"), ("ReduceMax", "int8"), ("ReduceL1", "f32")])
def test_long_rows_are_reduced_by_vectors(kind: str, mode: str, tmp_path: Path) -> None:
    nodes = [helper.make_node("Relu", ["x"], ["v"]), helper.make_node(kind, ["v"], ["y"], axes=[2])]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, of) for name, of in (("x", (1, 50, 768)), ("y", None))
    ]
    made = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:]), ir_version=8)
    path = tmp_path / "net.onnx"
    del made.opset_import[:]
    made.opset_import.append(helper.make_opsetid("", 17))
    path.write_bytes(made.SerializeToString())
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    x = np.random.default_rng(5).uniform(-1, 1, (1, 50, 768)).astype(np.float32)
    np.savez(tmp_path / "samples.npz", x=x)
    options = {"tune_num": 0, "bias_num": 0}
    table = session.calibrate(module, dataset=tmp_path / "samples.npz", options=options) if mode == "int8" else None
    loaded = session.chip.load(session.build(module, table).data)
    [got] = loaded.run({"x": x}).values()  # hazards are errors
    v = np.maximum(x, 0).astype(np.float64)
    wanted = {"ReduceMean": v.mean, "ReduceMax": v.max, "ReduceL1": v.sum}[kind](2, keepdims=True)
    assert np.abs(got - wanted).max() <= {"f16": 2e-3, "int8": 0.02, "f32": 3e-6}[mode] * np.abs(wanted).max()
    [profile, *_] = session.chip.profiles
    commands = [entry.command.instruction for entry in loaded.timeline(profile).entries]
    pools = [session.chip.cycles(command, profile) for command in commands if "Pool" in type(command).__name__]
    assert 0 < sum(pools) < 768 // 4
