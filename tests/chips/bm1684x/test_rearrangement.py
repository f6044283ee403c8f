"""Rearrangements in DDR by the fastest commands: their values, and how long they take."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import DdrTensor, ScalarType
from tpuc_bm1684x.isa import LinearCopy, TensorCopy, TransposeCW
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.rearrangement import fastest_move, transposition
from tpuc_driver.session import Session

from tests.chips.bm1684x.onnx_runtime import check_equal, compiled
from tests.conftest import RunVendor
from tests.families import each

SHAPE = (3, 70, 5, 130)
ORDERS = [(0, 2, 3, 1), (0, 3, 1, 2), (0, 3, 2, 1), (3, 1, 2, 0), (2, 3, 0, 1), (0, 1, 3, 2)]


def strided(shape: tuple[int, int, int, int], strides: tuple[int, int, int, int], name: str = "si8") -> DdrTensor:
    return DdrTensor(DDR_BASE, shape, strides, ScalarType(name))


def addresses(start: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> NDArray[np.int64]:
    places = np.full((1,) * len(shape), start, np.int64)
    for axis, (extent, step) in enumerate(zip(shape, strides, strict=True)):
        places = places + np.arange(extent).reshape([-1 if a == axis else 1 for a in range(len(shape))]) * step
    return places


@each(
    ("shape", "source", "target"),
    [
        ((1, 1, 85, 6400), (1, 1, 6400, 1), (1, 1, 1, 85)),  # rows in the source
        ((1, 1, 6400, 85), (1, 1, 1, 6400), (1, 1, 85, 1)),  # rows in the target
        ((3, 7, 11, 13), (1001, 143, 13, 1), (7, 1, 21, 231)),  # all of four dimensions move
        ((1, 4, 6, 8), (384, 96, 16, 2), (192, 48, 8, 1)),  # every other element: rows of one element in the source
        ((1, 4, 6, 1), (24, 6, 1, 1), (48, 12, 2, 1)),  # and in the target
    ],
)
def test_a_transposed_copy_moves_each_element_to_its_place(
    shape: tuple[int, int, int, int], source: tuple[int, int, int, int], target: tuple[int, int, int, int]
) -> None:
    command = transposition(strided(shape, target), strided(shape, source))
    assert isinstance(command, TransposeCW)
    read, written = command.strides()
    pairs = zip(
        addresses(0, command.shape, read).transpose(0, 3, 2, 1).ravel().tolist(),
        addresses(0, command.result_shape(), written).ravel().tolist(),
        strict=True,
    )
    wanted = zip(
        addresses(0, shape, source).ravel().tolist(), addresses(0, shape, target).ravel().tolist(), strict=True
    )
    assert sorted(pairs) == sorted(wanted)


@each(
    ("shape", "source", "target"),
    [
        ((1, 4, 6, 8), (192, 48, 8, 1), (384, 96, 16, 1)),  # rows stay rows
        ((1, 4, 6, 8), (384, 96, 16, 2), (384, 96, 16, 2)),  # no rows
        ((2, 4, 6, 8), (768, 96, 16, 2), (192, 48, 8, 1)),  # five dimensions with rows of one element
    ],
)
def test_other_copies_stay_copies(
    shape: tuple[int, int, int, int], source: tuple[int, int, int, int], target: tuple[int, int, int, int]
) -> None:
    assert transposition(strided(shape, target), strided(shape, source)) is None


def test_any_copy_moves_each_byte_to_its_place() -> None:
    random = np.random.default_rng(5)
    wrong: list[object] = []
    kinds: set[type[object]] = set()
    for _ in range(300):
        element = ScalarType(str(random.choice(["si8", "f16", "f32"])))
        item = element.bits // 8
        extents = random.choice([1, 2, 2, 4, 3, 5], 4)
        target = element_strides(extents, random.permutation(4), int(random.integers(1, 3)))
        source = element_strides(extents, random.permutation(4), int(random.integers(1, 3)))
        first, second, third, last = map(int, extents)
        shape = (first, second, third, last)
        command = fastest_move(strided(shape, target, element.name), strided(shape, source, element.name))
        kinds.add(type(command))
        wanted = bytes_moved(shape, source, target, item)
        if moved_by(command) != wanted:
            wrong.append(command)
    assert not wrong
    assert kinds == {LinearCopy, TensorCopy, TransposeCW}


def element_strides(extents: NDArray[np.int64], order: NDArray[np.int64], step: int) -> tuple[int, int, int, int]:
    """Strides of a tensor with its dimensions in some order in memory, `step` elements in place of one."""
    strides = [0, 0, 0, 0]
    for axis in order.tolist():
        strides[axis] = step
        step *= int(extents[axis])
    return (strides[0], strides[1], strides[2], strides[3])


def bytes_moved(
    shape: tuple[int, ...], source: tuple[int, ...], target: tuple[int, ...], item: int
) -> set[tuple[int, int]]:
    """Where each byte comes from and goes to."""
    read, written = (addresses(0, shape, strides).ravel() * item for strides in (source, target))
    return {(int(a) + i, int(b) + i) for a, b in zip(read, written, strict=True) for i in range(item)}


def moved_by(command: LinearCopy | TensorCopy | TransposeCW) -> set[tuple[int, int]]:
    """The same by what a command reads and writes."""
    size = command.dtype.bytes
    if isinstance(command, LinearCopy):
        return bytes_moved((command.count,), (1,), (1,), size)
    read, written = command.strides()
    if isinstance(command, TransposeCW):
        n, w, h, c = written
        written = (n, c, h, w)
    return bytes_moved(command.shape, read, written, size)


def permutations(work: Path, mode: str) -> tuple[Session, bytes, dict[str, NDArray[Any]]]:
    """Every order of one input, each as an output."""
    names = ["y" + "".join(map(str, order)) for order in ORDERS]
    nodes = [
        helper.make_node("Transpose", ["x"], [name], name=name, perm=list(order))
        for name, order in zip(names, ORDERS, strict=True)
    ]
    graph = helper.make_graph(
        nodes,
        "permutations",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, SHAPE)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names],
    )
    path = work / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    session = Session(chip="bm1684x", quantize=mode)
    inputs = {"x": np.random.default_rng(2).integers(-100, 100, SHAPE).astype(np.float32)}  # exact in f16
    return session, session.build(session.transform(path)).data, inputs


@each("mode", ["f32", "f16"])
def test_the_simulator_permutes_as_numpy(mode: str, tmp_path: Path) -> None:
    session, data, inputs = permutations(tmp_path, mode)
    loaded = session.chip.load(data)
    check(loaded.run(inputs), inputs["x"])
    commands = [entry.command.instruction for entry in loaded.timeline("vendor").entries]
    assert sum(isinstance(command, TransposeCW) for command in commands) >= len(ORDERS) - 1


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f32", "f16"])
def test_the_vendors_model_permutes_as_numpy(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    _, data, inputs = permutations(tmp_path, mode)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    check(run_vendor(path, inputs), inputs["x"])


def check(outputs: dict[str, NDArray[Any]], x: NDArray[Any]) -> None:
    for (name, got), order in zip(outputs.items(), ORDERS, strict=True):
        assert np.array_equal(got.reshape(-1), x.transpose(order).reshape(-1)), name


def rearranged(work: Path, mode: str) -> tuple[Session, bytes, dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """Blocks, runs, strides and borders of one input, each as an output; beside them what ONNX Runtime says."""
    shape = (1, 8, 12, 18)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []

    def integers(name: str, *values: int) -> str:
        constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(operator: str, output: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    for order in ("CRD", "DCR"):
        add("DepthToSpace", f"{order}_blocks", "x", blocksize=2, mode=order)
    add("SpaceToDepth", "channels", "x", blocksize=3)
    for run in (2, 4, 8):
        split = add("Reshape", f"split{run}", "x", integers(f"runs{run}", 8, 3, 72 // run, run))
        add("Transpose", f"runs{run}_turned", split, perm=(0, 2, 1, 3))
    for name, start, end, axis, step in (
        *(("columns", 1, 18, 3, 3), ("first", 0, 1, 3, 1), ("rows", 1, 12, 2, 5)),
        *(("back", -1, -99, 3, -1), ("far", 5, 1, 2, -2)),
    ):
        bounds = [integers(f"{name}_{i}", value) for i, value in enumerate((start, end, axis, step))]
        add("Slice", name, "x", *bounds)
    for kind in ("reflect", "edge", "constant"):
        for number, pads in enumerate(((1, 1, 1, 1), (3, 0, 2, 5), (0, 2, 0, 0))):
            top, left, bottom, right = pads
            around = integers(f"pads_{kind}{number}", 0, 0, top, left, 0, 0, bottom, right)
            add("Pad", f"{kind}{number}", "x", around, mode=kind)
    add("Tile", "tiled", "x", integers("times", 1, 2, 1, 40))
    read = {name for node in nodes for name in node.input}
    outputs = [node.output[0] for node in nodes if node.output[0] not in read]
    graph = helper.make_graph(
        nodes,
        "rearranged",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        constants,
    )
    inputs = {"x": np.random.default_rng(3).integers(-100, 100, shape).astype(np.float32)}  # exact in f16
    session, data, wanted = compiled(work, graph, inputs, mode)
    return session, data, inputs, wanted


@each("mode", ["f32", "f16"])
def test_the_simulator_rearranges_as_onnx_runtime(mode: str, tmp_path: Path) -> None:
    session, data, inputs, wanted = rearranged(tmp_path, mode)
    check_equal(session.chip.load(data).run(inputs), wanted)


@pytest.mark.interop
@pytest.mark.parametrize("mode", ["f32", "f16"])
def test_the_vendors_model_rearranges_as_onnx_runtime(mode: str, run_vendor: RunVendor, tmp_path: Path) -> None:
    _, data, inputs, wanted = rearranged(tmp_path, mode)
    path = tmp_path / "net.bmodel"
    path.write_bytes(data)
    check_equal(run_vendor(path, inputs), wanted)


@each(
    ("operator", "attributes", "constants", "most"),
    [
        ("DepthToSpace", {"blocksize": 2, "mode": "CRD"}, [], 0.5),
        ("Transpose", {"perm": (0, 2, 3, 1)}, [], 0.5),
        ("Slice", {}, [(0, 0), (64, 64), (2, 3), (2, 2)], 0.5),
        ("Pad", {"mode": "reflect"}, [(0, 0, 1, 1, 0, 0, 1, 1)], 1.5),
        ("Pad", {"mode": "edge"}, [(0, 0, 0, 0, 0, 0, 0, 3)], 1.5),
    ],
)
def test_a_rearrangement_costs_about_its_transfers(
    operator: str, attributes: dict[str, Any], constants: list[tuple[int, ...]], most: float, tmp_path: Path
) -> None:
    names = [f"constant{index}" for index in range(len(constants))]
    shape = (1, 16, 64, 64)
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", *names], ["y"], **attributes)],
        "rearrangement",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(one, np.int64), name) for name, one in zip(names, constants, strict=True)],
    )
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    session = Session(chip="bm1684x", quantize="f16")
    loaded = session.chip.load(session.build(session.transform(path)).data)
    assert loaded.timeline("vendor").cycles <= most * 4 * np.prod(shape) * (1 / 54.02 + 1 / 40.98)
