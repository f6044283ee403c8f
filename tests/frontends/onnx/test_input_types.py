"""`transform --test-input` for inputs of every type, which ONNX Runtime takes as the file states them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import CalibrationError, TpucError, Unsupported
from tpuc_driver.session import Session

from tests.families import each

TYPES = (
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64"),
)
SHAPES = ((), (3,), (1, 3, 4, 5), (1, 2, 3, 2, 2))


def numbers(dtype: str, shape: tuple[int, ...]) -> NDArray[np.generic]:
    generator = np.random.default_rng(len(shape))
    if dtype.startswith("float"):
        return np.asarray(generator.normal(size=shape)).astype(dtype)
    return np.asarray(generator.integers(0, 2 if dtype == "bool" else 7, shape)).astype(dtype)


def save(folder: Path, dtype: str, shape: Sequence[int], nodes: Sequence[onnx.NodeProto], result: str = "y") -> Path:
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "types",
        [
            helper.make_tensor_value_info("x", kind, shape),
            helper.make_tensor_value_info("s", TensorProto.FLOAT, ()),
        ],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.arange(28, dtype=np.float32).reshape(7, 4), "rows")],
    )
    path = folder / "types.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


SCALED = [helper.make_node("Cast", ["x"], ["f"], to=1), helper.make_node("Mul", ["f", "s"], ["y"])]
LOOKED_UP = [helper.make_node("Gather", ["rows", "x"], ["g"]), helper.make_node("Mul", ["g", "s"], ["y"])]


def fault_of(path: Path, sample: NDArray[np.generic]) -> str:
    """Why a comparison on a sample fails; empty when it does not."""
    file = path.with_name("x.npz")
    np.savez(file, x=sample, s=np.float32(1.5))
    session = Session()
    try:
        session.verify_transform(path, session.transform(path), test_input=(file,))
    except TpucError as error:
        return f"{error}"
    return ""


def test_every_type_and_rank_compares(tmp_path: Path) -> None:
    """Samples may be of the input's own type, or of another one that holds the same numbers."""
    faults: list[str] = []
    for dtype in TYPES:
        for shape in SHAPES:
            own = numbers(dtype, shape)
            given = {"float64", dtype} if dtype.startswith("float") else {"float32", "int64", dtype}
            nodes = [SCALED, LOOKED_UP] if dtype in ("int32", "int64") else [SCALED]
            for path in (save(tmp_path, dtype, shape, one) for one in nodes):
                found = {kind: fault_of(path, own.astype(kind)) for kind in sorted(given)}
                faults += [f"{dtype} {shape} as {kind}: {fault}" for kind, fault in found.items() if fault]
    assert faults == []


@each(
    ("dtype", "sample", "fault"),
    [
        ("int64", 0.5, "input 'x' has values that int64 cannot represent. Convert the sample."),
        ("uint8", -1.0, "input 'x' has values that uint8 cannot represent. Convert the sample."),
        ("bool", 2, "input 'x' has values that bool cannot represent. Convert the sample."),
        ("float16", 1e6, "input 'x' has values that float16 cannot represent. Convert the sample."),
    ],
)
def test_numbers_that_the_type_cannot_hold_are_refused(dtype: str, sample: float, fault: str, tmp_path: Path) -> None:
    path = save(tmp_path, dtype, (2,), SCALED)
    np.savez(tmp_path / "x.npz", x=np.full(2, sample), s=np.float32(1))
    session = Session()
    with pytest.raises(CalibrationError, match=re.escape(fault)):
        session.verify_transform(path, session.transform(path), test_input=(tmp_path / "x.npz",))


def test_a_network_that_the_engine_cannot_run(tmp_path: Path) -> None:
    """ONNX Runtime has no Add of bfloat16."""
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        helper.make_node("Add", ["h", "h"], ["a"]),
        helper.make_node("Cast", ["a"], ["y"], to=1),
    ]
    path = save(tmp_path, "float32", (2,), nodes)
    np.savez(tmp_path / "x.npz", x=np.zeros(2, np.float32), s=np.float32(1))
    session = Session()
    with pytest.raises(Unsupported, match=r"types\.onnx: ONNX Runtime cannot run it \(.*\)\. Leave out --test-input\."):
        session.verify_transform(path, session.transform(path), test_input=(tmp_path / "x.npz",))
