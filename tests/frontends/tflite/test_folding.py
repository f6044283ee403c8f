"""Operators whose operands are constants: computed at import as numpy or a hand computes them, or refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import InvalidModel
from tpuc_tflite.folding import foldable

from tests.families import each
from tests.frontends.tflite.files import KINDS, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, ops_of, read

Array = NDArray[Any]
Case = tuple[str, Sequence[Array], tuple[str, Mapping[str, Any]] | None, Sequence[Array]]


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int32)


def reals(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def truths(*bits: int) -> Array:
    return np.array(bits, np.bool_)


TABLE = np.arange(12, dtype=np.int32).reshape(3, 4)
BITS = np.array([[1, 1, 0], [1, 1, 1]], np.bool_)
CASES: Sequence[Case] = (
    ("ABS", [reals(-1.5, 2)], None, [reals(1.5, 2)]),
    ("ADD", [ints(3, -4), ints(5)], None, [ints(8, 1)]),
    ("BROADCAST_ARGS", [ints(2, 1, 3), ints(4, 1)], None, [ints(2, 4, 3)]),
    ("BROADCAST_TO", [ints(1, 2), ints(2, 2)], None, [np.array([[1, 2], [1, 2]], np.int32)]),
    ("CAST", [reals(2.75, -2.75)], None, [ints(2, -2)]),
    ("CEIL", [reals(-1.5, 1.25)], None, [reals(-1, 2)]),
    (
        "CONCATENATION",
        [TABLE[:, :1], TABLE[:, 2:]],
        ("ConcatenationOptions", {"Axis": 1}),
        [np.array([[0, 2, 3], [4, 6, 7], [8, 10, 11]], np.int32)],
    ),
    ("DIV", [ints(7, -7, 7, -7), ints(2, 2, -2, -2)], None, [ints(3, -3, -3, 3)]),
    ("DIV", [reals(7, -1), reals(2, 4)], None, [reals(3.5, -0.25)]),
    ("EQUAL", [ints(1, 2), ints(2)], None, [truths(0, 1)]),
    ("EXPAND_DIMS", [ints(5, 6), ints(0)], None, [np.array([[5, 6]], np.int32)]),
    ("FILL", [ints(2, 3), np.array(7, np.int32)], None, [np.full((2, 3), 7, np.int32)]),
    ("FLOOR", [reals(-1.5, 1.25)], None, [reals(-2, 1)]),
    ("FLOOR_DIV", [ints(7, -7), ints(2)], None, [ints(3, -4)]),
    ("FLOOR_MOD", [ints(7, -7, 7), ints(3, 3, -3)], None, [ints(1, 2, -2)]),
    ("GATHER", [TABLE, ints(3, 0)], ("GatherOptions", {"Axis": 1}), [TABLE[:, [3, 0]]]),
    ("GREATER", [ints(1, 2, 3), ints(2)], None, [truths(0, 0, 1)]),
    ("GREATER_EQUAL", [ints(1, 2, 3), ints(2)], None, [truths(0, 1, 1)]),
    ("LESS", [ints(1, 2, 3), ints(2)], None, [truths(1, 0, 0)]),
    ("LESS_EQUAL", [ints(1, 2, 3), ints(2)], None, [truths(1, 1, 0)]),
    ("LOGICAL_AND", [truths(0, 0, 1, 1), truths(0, 1, 0, 1)], None, [truths(0, 0, 0, 1)]),
    ("LOGICAL_NOT", [truths(0, 1)], None, [truths(1, 0)]),
    ("LOGICAL_OR", [truths(0, 0, 1, 1), truths(0, 1, 0, 1)], None, [truths(0, 1, 1, 1)]),
    ("MAXIMUM", [ints(1, -2), ints(0)], None, [ints(1, 0)]),
    ("MINIMUM", [ints(1, -2), ints(0)], None, [ints(0, -2)]),
    ("MUL", [ints(3, -4), ints(5)], None, [ints(15, -20)]),
    ("NEG", [ints(3, -4)], None, [ints(-3, 4)]),
    ("NOT_EQUAL", [ints(1, 2), ints(2)], None, [truths(1, 0)]),
    ("PACK", [ints(1, 2), ints(3, 4)], ("PackOptions", {"Axis": 1}), [np.array([[1, 3], [2, 4]], np.int32)]),
    ("RANGE", [np.array(n, np.int32) for n in (2, 9, 3)], None, [ints(2, 5, 8)]),
    ("RANGE", [np.array(n, np.float32) for n in (1, -1, -0.5)], None, [reals(1, 0.5, 0, -0.5)]),
    ("REDUCE_ALL", [BITS, ints(1)], ("ReducerOptions", {"KeepDims": False}), [truths(0, 1)]),
    ("REDUCE_ANY", [BITS, ints(0)], ("ReducerOptions", {"KeepDims": True}), [np.array([[1, 1, 1]], np.bool_)]),
    ("REDUCE_MAX", [TABLE, ints(0)], None, [ints(8, 9, 10, 11)]),
    ("REDUCE_MIN", [TABLE, ints(-1)], None, [ints(0, 4, 8)]),
    ("REDUCE_PROD", [TABLE + 1, ints(0)], None, [ints(45, 120, 231, 384)]),
    ("RESHAPE", [TABLE, ints(2, -1)], None, [TABLE.reshape(2, 6)]),
    ("RESHAPE", [TABLE], ("ReshapeOptions", {"NewShape": [6, 2]}), [TABLE.reshape(6, 2)]),
    ("RSQRT", [reals(4, 0.25)], None, [reals(0.5, 2)]),
    ("SELECT", [truths(1, 0), ints(1, 2), ints(3, 4)], None, [ints(1, 4)]),
    ("SELECT_V2", [truths(1, 0), ints(1), ints(3)], None, [ints(1, 3)]),
    ("SLICE", [TABLE, ints(1, 1), ints(2, -1)], None, [TABLE[1:3, 1:]]),
    ("SPLIT", [np.array(1, np.int32), TABLE], ("SplitOptions", {"NumSplits": 2}), [TABLE[:, :2], TABLE[:, 2:]]),
    (
        "SPLIT_V",
        [TABLE, ints(1, -1), np.array(0, np.int32)],
        ("SplitVOptions", {"NumSplits": 2}),
        [TABLE[:1], TABLE[1:]],
    ),
    ("SQRT", [reals(9, 0.25)], None, [reals(3, 0.5)]),
    ("SQUEEZE", [np.array([[5, 6]], np.int32)], None, [ints(5, 6)]),
    (
        "STRIDED_SLICE",
        [TABLE, ints(1, 3), ints(2, 0), ints(1, -2)],
        ("StridedSliceOptions", {"EndMask": 2, "ShrinkAxisMask": 1}),
        [TABLE[1, 3::-2]],
    ),
    ("SUB", [ints(3, -4), ints(5)], None, [ints(-2, -9)]),
    ("SUM", [TABLE, ints(0, 1)], None, [np.array(66, np.int32)]),
    ("TILE", [ints(1, 2), ints(2)], None, [ints(1, 2, 1, 2)]),
    ("TRANSPOSE", [TABLE, ints(1, 0)], None, [TABLE.T]),
    ("UNPACK", [TABLE[:2]], ("UnpackOptions", {"Num": 2}), [TABLE[0], TABLE[1]]),
)


def network(case: Case) -> bytes:
    """Each result, as floats, is an output; so that there is something to run, x goes through Abs."""
    op, operands, options, results = case
    tensors, nodes = [Tensor("x", (2,)), Tensor("y", (2,))], [Node("ABS", ["x"], ["y"])]
    names = [f"a{index}" for index in range(len(operands))]
    tensors += [constant(name, array) for name, array in zip(names, operands, strict=True)]
    outputs: list[str] = []
    for index, array in enumerate(results):
        tensors.append(Tensor(f"r{index}", array.shape, KINDS[array.dtype.name]))
        tensors += [Tensor(f"f{index}", array.shape), Tensor(f"v{index}", (*array.shape, 2))]
        tensors += [constant(f"s{index}", ints(*array.shape, 1)), Tensor(f"c{index}", (*array.shape, 1))]
        nodes += [Node("CAST", [f"r{index}"], [f"f{index}"])]
        nodes += [Node("RESHAPE", [f"f{index}", f"s{index}"], [f"c{index}"])]
        nodes += [Node("MUL", ["y", f"c{index}"], [f"v{index}"], ("MulOptions", {}))]
        outputs.append(f"v{index}")
    first = Node(op, names, [f"r{index}" for index in range(len(results))], options)
    return tflite_file(tensors, [first, *nodes], ["x"], outputs)


@each("case", [pytest.param(case, id=f"{case[0].lower()}-{i}") for i, case in enumerate(CASES)])
def test_constants_are_computed_at_import(case: Case, tmp_path: Path) -> None:
    """Small integers times powers of two are exact in float32."""
    module = read(network(case), tmp_path)
    assert set(ops_of(module)) <= {"Abs", "Mul", "MulConst", "Reshape"}
    for found, array in zip(compute(module, reals(-1, 0.5)), case[3], strict=True):
        np.testing.assert_array_equal(found, array[..., None].astype(np.float32) * reals(1, 0.5))


def test_every_operator_that_can_be_computed_is_here() -> None:
    """Both of the others unpack weights."""
    assert {op for op, *_ in CASES} == set(foldable()) - {"DENSIFY", "DEQUANTIZE"}


def test_a_range_may_be_empty(tmp_path: Path) -> None:
    bounds = [constant(f"n{index}", np.array(n, np.int32)) for index, n in enumerate((3, 3, 1))]
    tensors = [Tensor("x", (2,)), *bounds, Tensor("none", (0,), "INT32"), constant("two", ints(2))]
    tensors += [Tensor("shape", (1,), "INT32"), Tensor("y", (2,))]
    nodes = [
        Node("RANGE", ["n0", "n1", "n2"], ["none"]),
        Node("CONCATENATION", ["none", "two"], ["shape"], ("ConcatenationOptions", {"Axis": 0})),
        Node("RESHAPE", ["x", "shape"], ["y"]),
    ]
    module = read(tflite_file(tensors, nodes, ["x"], ["y"]), tmp_path)
    np.testing.assert_array_equal(compute(module, reals(3, 4))[0], reals(3, 4))


@each(
    ("op", "operands", "sentence"),
    [
        ("BROADCAST_TO", [ints(1, 2), ints(3)], "could not be broadcast"),
        ("DIV", [ints(1), ints(0)], "it divides by zero"),
        ("FILL", [ints(-1), np.array(7, np.int32)], r"the shape \[-1\] is impossible"),
        ("FILL", [ints(1 << 20, 1 << 20), np.array(7, np.int32)], r"the shape \[1048576, 1048576\] is impossible"),
        ("GATHER", [TABLE, ints(3)], "out of bounds"),
        ("RANGE", [np.array(n, np.int32) for n in (0, 1, 0)], "division by zero"),
        ("STRIDED_SLICE", [TABLE, ints(0), ints(1), ints(0)], "do not fit each other"),
        ("STRIDED_SLICE", [TABLE, ints(0, 0, 0), ints(1, 1, 1), ints(1, 1, 1)], "it slices 3 dimensions"),
        ("TRANSPOSE", [TABLE, ints(0, 0)], "repeated axis"),
    ],
)
def test_what_cannot_be_computed_is_refused(op: str, operands: list[Array], sentence: str, tmp_path: Path) -> None:
    case: Case = (op, operands, None, [ints(1)])
    reason = f"{op}.*: its operands are constants, but it cannot be computed: .*{sentence}"
    with pytest.raises(InvalidModel, match=reason):
        read(network(case), tmp_path)
