"""Permutations in DDR: rows that become columns are transposed by one command, with the numbers of a transposition."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tpuc.api import DdrTensor, ScalarType
from tpuc_bm1684x.isa import TransposeCW
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.transposition import transposition
from tpuc_driver.session import Session

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
        ((1, 4, 6, 8), (384, 96, 16, 2), (192, 48, 8, 1)),  # every other element
        ((1, 4, 6, 1), (24, 6, 1, 1), (48, 12, 2, 1)),
    ],
)
def test_other_copies_stay_copies(
    shape: tuple[int, int, int, int], source: tuple[int, int, int, int], target: tuple[int, int, int, int]
) -> None:
    assert transposition(strided(shape, target), strided(shape, source)) is None


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
