"""Rows of a few values, as detectors make them: columns are cut, computed with and joined within lanes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import pytest
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_bm1684x.isa import TensorCopy
from tpuc_bm1684x.isa.types import in_lmem
from tpuc_driver.session import Session

from benchmarks.architectures.graph import Graph
from tests.conftest import RunVendor
from tests.families import each


def boxes(rows: int) -> bytes:
    """Centers and sizes of boxes become corners, and two scores a distribution."""
    weights = {
        "prior": np.random.default_rng(1).uniform(0, 1, (1, rows, 2)).astype(np.float32),
        "tenth": np.array(0.1, np.float32),
        "half": np.array(0.5, np.float32),
        **{name: np.array([value], np.int64) for name, value in (("zero", 0), ("two", 2), ("four", 4))},
    }
    nodes = [
        helper.make_node("Slice", ["offsets", "zero", "two", "two"], ["xy"]),
        helper.make_node("Slice", ["offsets", "two", "four", "two"], ["wh"]),
        helper.make_node("Mul", ["xy", "tenth"], ["scaled"]),
        helper.make_node("Add", ["scaled", "prior"], ["center"]),
        helper.make_node("Exp", ["wh"], ["grown"]),
        helper.make_node("Mul", ["grown", "half"], ["radius"]),
        helper.make_node("Sub", ["center", "radius"], ["low"]),
        helper.make_node("Add", ["center", "radius"], ["high"]),
        helper.make_node("Concat", ["low", "high"], ["corners"], axis=2),
        helper.make_node("Softmax", ["scores"], ["chances"], axis=2),
    ]
    graph = helper.make_graph(
        nodes,
        "boxes",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, rows, k]) for n, k in (("offsets", 4), ("scores", 2))],
        [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, rows, k])
            for n, k in (("corners", 4), ("chances", 2))
        ],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model.SerializeToString()


def build(rows: int, mode: str, work: Path) -> tuple[Session, Module, bytes, dict[str, np.ndarray]]:
    path = work / "net.onnx"
    path.write_bytes(boxes(rows))
    session = Session(chip="bm1684x", quantize=mode)
    module = session.transform(path)
    random = np.random.default_rng(2)
    inputs = {name: random.normal(0, 1, (1, rows, k)).astype(np.float32) for name, k in (("offsets", 4), ("scores", 2))}
    np.savez(work / "samples.npz", **inputs)
    table = session.calibrate(module, dataset=work / "samples.npz", options={"tune_num": 0}) if mode == "int8" else None
    final, data, *_ = session.build(module, table)
    return session, final, data, inputs


@each("mode", ["int8", "f16", "f32"])
@each("rows", [4420, 1000, 4421])
def test_columns_have_the_numbers_of_the_module(rows: int, mode: str, tmp_path: Path) -> None:
    session, final, data, inputs = build(rows, mode, tmp_path)
    wanted = Interpreter(final).run(inputs)
    for name, got in session.chip.load(data).run(inputs).items():
        expected = wanted[name].reshape(-1)
        # Nothing but the exponent, a series here, is computed otherwise than in the module; softmax is f32 everywhere.
        exact = mode == "int8" and name == "corners"
        limit = 0 if exact else {"f16": 2**-9}.get(mode, 2**-20) * float(np.ptp(expected))
        assert np.abs(got.reshape(-1).astype(np.float64) - expected).max() <= limit, name


@each("mode", ["int8", "f16", "f32"])
@each("rows", [4420, 8400])
def test_no_column_is_transferred_value_by_value(rows: int, mode: str, tmp_path: Path) -> None:
    session, _, data, _ = build(rows, mode, tmp_path)
    loaded = session.chip.load(data)
    timeline = loaded.timeline("vendor")
    copies = [
        entry.command.instruction for entry in timeline.entries if isinstance(entry.command.instruction, TensorCopy)
    ]
    assert copies
    assert all(in_lmem(copy.source) != in_lmem(copy.destination) for copy in copies)
    assert timeline.cycles < 2 * rows  # 4420 rows one by one take 21,000 cycles to load and 28,000 to store


def halves(dims: Sequence[int], columns: int) -> bytes:
    """The columns from `columns` on come before the first ones."""
    last = len(dims) - 1
    numbers = {"begin": 0, "middle": columns, "end": dims[-1], "last": last}
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Slice", ["positive", "begin", "middle", "last"], ["first"]),
        helper.make_node("Slice", ["positive", "middle", "end", "last"], ["second"]),
        helper.make_node("Concat", ["second", "first"], ["joined"], axis=last),
        helper.make_node("Neg", ["joined"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "halves",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
        [numpy_helper.from_array(np.array([number], np.int64), name) for name, number in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()


@each(
    ("dims", "columns"),
    # As many lanes of blocks as channels, then others.
    [((8, 64, 16), 8), ((8, 64, 16), 1), ((3, 50, 10), 9), ((2, 64, 4, 16), 5), ((64, 8, 16), 8), ((640, 4), 1)],
)
def test_columns_change_places(dims: tuple[int, ...], columns: int, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(halves(dims, columns))
    session = Session(chip="bm1684x", quantize="f32")
    final, data, *_ = session.build(session.transform(path), None)
    moves = [operation for operation in final.walk() if operation.op.name in ("tpu.Slice", "tpu.Concat")]
    moves = [operation for operation in moves if not operation.name.endswith("_image1")]  # as those of the first image
    assert sum("tiling" in operation.extra_attributes for operation in moves) == 3
    x = np.random.default_rng(3).normal(0, 1, dims).astype(np.float32)
    (got,) = session.chip.load(data).run({"x": x}).values()
    positive = np.maximum(x, 0)
    wanted = -np.concatenate([positive[..., columns:], positive[..., :columns]], axis=-1)
    assert np.array_equal(got.reshape(dims), wanted)


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["int8", "f16"])
def test_the_vendors_model_agrees_on_columns(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    session, _, data, inputs = build(1000, mode, tmp_path)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    got = run_vendor(path, inputs)
    for name, wanted in session.chip.load(data).run(inputs).items():
        assert np.array_equal(got[name].reshape(-1), wanted.reshape(-1)), name


def normalized(path: Path, dims: tuple[int, ...]) -> None:
    net = Graph()
    path.write_bytes(net.model(net.norm(net.each("Relu", net.input(*dims)))).SerializeToString())


@each("mode", ["f16", "f32"])
@each("dims", [(48, 48, 16), (2000, 10), (31, 31, 32), (4421, 8)])
def test_norms_of_short_rows(dims: tuple[int, ...], mode: str, tmp_path: Path) -> None:
    normalized(tmp_path / "net.onnx", dims)
    session = Session(chip="bm1684x", quantize=mode)
    loaded = session.chip.load(session.build(session.transform(tmp_path / "net.onnx")).data)
    x = np.random.default_rng(3).normal(1, 1, (1, *dims)).astype(np.float32)
    (got,) = loaded.run({"x0": x}).values()
    engine: Any = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    wanted = engine.run(None, {"x0": x})[0]
    assert np.abs(got.reshape(wanted.shape) - wanted).max() <= {"f16": 1e-2, "f32": 2e-5}[mode]
    if dims[0] % 2 == 0:  # rows that no number of lanes shares equally are loaded one by one
        moved = 4 * x.size / 54 + 4 * x.size / 41
        assert loaded.timeline("vendor").cycles < 3 * moved


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f16", "f32"])
def test_the_vendors_model_agrees_on_norms(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    normalized(tmp_path / "net.onnx", (48, 48, 16))
    session = Session(chip="bm1684x", quantize=mode)
    data = session.build(session.transform(tmp_path / "net.onnx")).data
    inputs = {"x0": np.random.default_rng(3).normal(1, 1, (1, 48, 48, 16)).astype(np.float32)}
    ours = session.chip.load(data).run(inputs)
    (tmp_path / "net.bmodel").write_bytes(data)
    theirs = run_vendor(tmp_path / "net.bmodel", inputs)
    for name, array in ours.items():
        assert np.array_equal(theirs[name].reshape(-1), array.reshape(-1)), name


@pytest.mark.chip("bm1684x")
def test_one_computed_row_for_all(tmp_path: Path) -> None:
    """It lies in one lane and is repeated over all others, whatever the rank: results are ONNX Runtime's."""
    shapes = [(96, 16), (200, 30), (130, 32, 8), (2, 96, 32), (70, 30), (1, 1, 70, 30), (3, 65, 2, 5), (2, 3, 70, 9)]
    nodes: list[Any] = []
    for number, dims in enumerate(shapes):
        axes = [*range(len(dims) - 1)]
        nodes += [
            helper.make_node("ReduceMax", [f"x{number}"], [f"row{number}"], axes=axes, keepdims=number % 2),
            helper.make_node("Sub", [f"x{number}", f"row{number}"], [f"less{number}"]),
            helper.make_node("Mul", [f"less{number}", f"row{number}"], [f"y{number}"]),
        ]
    ends = [
        [
            helper.make_tensor_value_info(f"{name}{number}", TensorProto.FLOAT, dims)
            for number, dims in enumerate(shapes)
        ]
        for name in "xy"
    ]
    graph = helper.make_graph(nodes, "rows", *ends)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "n.onnx").write_bytes(model.SerializeToString())
    rng = np.random.default_rng(2)
    given = {f"x{number}": rng.normal(size=dims).astype(np.float32) for number, dims in enumerate(shapes)}
    right = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, given)
    session = Session(chip="bm1684x", quantize="f32")
    session.compile(tmp_path / "n.onnx", tmp_path / "n.bmodel")
    found = session.chip.load((tmp_path / "n.bmodel").read_bytes()).run(given)
    wrong = [dims for number, dims in enumerate(shapes) if not np.array_equal(found[f"y{number}"], right[number])]
    assert wrong == []
