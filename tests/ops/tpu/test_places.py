"""tpu ops that choose, compare and order stored values, against loops in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tpuc.api import ABSENT, F32, ScalarType, TensorType
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_testing import OpConformance, Typed, f32, integers, onnx_node, quantized, uniform

I32 = ScalarType("i32")


def i32(*rows: list[int]) -> Typed:
    array = np.array(rows, np.int32)
    return Typed(array, TensorType(array.shape, I32))


class TestGatherRows(OpConformance):
    op = tpu.GatherRows()

    @staticmethod
    def reference(x: Array, indices: Array) -> Array:
        rows = [
            [list(x[c][i]) if 0 <= i < len(x[c]) else [0] * x.shape[2] for i in indices[c % len(indices)]]
            for c in range(len(x))
        ]
        return np.array(rows, x.dtype)

    samples = (
        [uniform(2, 5, 3), i32([4, 0, -1, 7])],
        [uniform(2, 5, 3), i32([4, 0, 0], [1, 2, 3])],
        [quantized(integers(1, 5, 3), 0.1), i32([4, 0, 0])],
    )
    flops = 0


class TestScatterRows(OpConformance):
    op = tpu.ScatterRows()

    @staticmethod
    def reference(x: Array, indices: Array, updates: Array) -> Array:
        rows = [[list(row) for row in channel] for channel in x]
        for c, channel in enumerate(updates):
            for place, update in zip(indices[c % len(indices)], channel, strict=True):
                if 0 <= place < x.shape[1]:
                    rows[c][place] = list(update)
        return np.array(rows, x.dtype)

    samples = (
        [uniform(2, 5, 3), i32([4, 0, -1, 4]), uniform(2, 4, 3, seed=1)],
        [quantized(integers(2, 5, 3), 0.1), i32([4, 0], [1, 9]), quantized(integers(2, 2, 3, seed=1), 0.1)],
    )
    flops = 0


class TestRowIndex(OpConformance):
    op = tpu.RowIndex(extent=9, stride=4)

    @staticmethod
    def reference(x: Array, *others: Array) -> Array:
        places = [(int(v) + 9 if int(v) < 0 else int(v)) * 4 for v in x.reshape(-1)]
        result = np.array(places, np.int32).reshape(x.shape)
        return result + others[0] if others else result

    samples = ([f32(0, 3.7, -1.2, -9, 8)], [f32(2, -2), i32([5, 6], [7, 8])])
    flops = 3


class TestCompare(OpConformance):
    op = tpu.Compare(mode="GreaterOrEqual")
    reference = onnx_node("GreaterOrEqual")
    samples = ([f32(1, 2, 3), f32(2, 2, 2)],)
    flops = 1


class TestCompareConst(OpConformance):
    op = tpu.CompareConst(mode="Less", const_val=0.5, inversed=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([float(v > 0.5) for v in x], np.float32)

    samples = ([f32(0.25, 0.5, 0.75)],)
    flops = 1


class TestWhere(OpConformance):
    op = tpu.Where()

    @staticmethod
    def reference(condition: Array, yes: Array, no: Array) -> Array:
        return np.array([y if c else n for c, y, n in zip(condition, yes, no, strict=True)], yes.dtype)

    samples = (
        [f32(1, 0, -2), f32(1, 2, 3), f32(4, 5, 6)],
        [f32(1, 0, -2), quantized(integers(3), 0.1), quantized(integers(3, seed=1), 0.1)],
    )
    flops = 1


class TestWhereNumber(OpConformance):
    op = tpu.Where(y_is_const=True, y_const_val=-7.0)

    @staticmethod
    def reference(condition: Array, yes: Array, _: Array) -> Array:
        return np.array([y if c else -7 for c, y in zip(condition, yes, strict=True)], yes.dtype)

    samples = ([f32(1, 0, -2), quantized(integers(3), 0.1), None],)
    flops = 1


class TestArg(OpConformance):
    op = tpu.Arg(axis=1, keepdims=False, select_last_index=True)
    reference = onnx_node("ArgMax", axis=1, keepdims=0, select_last_index=1)
    samples = ([np.rint(uniform(3, 9, 2, low=-2, high=2))], [quantized(integers(3, 9, 2) // 60, 0.1)])
    flops = 9


class TestScan(OpConformance):
    op = tpu.Scan(axis=1, exclusive=True, reverse=True)

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([[math.fsum(row[i + 1 :]) for i in range(len(row))] for row in x], np.float32)

    samples = ([uniform(3, 11)],)
    flops = 4


class TestProducts(OpConformance):
    op = tpu.Scan(axis=0, mode="Prod")

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([math.prod(float(v) for v in x[: i + 1]) for i in range(len(x))], np.float32)

    samples = ([uniform(9, low=0.5, high=1.5)],)
    flops = 4


class TestBestPlaces(OpConformance):
    op = tpu.BestPlaces(kept=5)

    @staticmethod
    def reference(x: Array) -> Array:
        best = [sorted(sorted(range(len(row)), key=lambda i: (-row[i], i))[:5]) for row in x]
        return np.array([[one.index(i) if i in one else 5 for i in range(x.shape[1])] for one in best], np.int32)

    samples = ([np.rint(uniform(2, 12, low=-2, high=2))],)
    flops = 32


class TestRank(OpConformance):
    op = tpu.Rank(largest=False)

    @staticmethod
    def reference(x: Array, _: Array) -> Array:
        def place(row: Array, i: int) -> int:
            return sum(1 for j in range(len(row)) if (row[j], j) < (row[i], i))

        return np.array([[place(row, i) for i in range(len(row))] for row in x], np.int32)

    samples = ([np.rint(uniform(2, 12, low=-2, high=2))] * 2,)
    flops = 12


class TestRemainder(OpConformance):
    op = tpu.Remainder()

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return np.array([float(int(a) % int(b)) for a, b in zip(x, y, strict=True)], np.float32)

    samples = ([f32(7, -7, 7, -7, 6), f32(3, 3, -3, -3, 3)],)
    flops = 8


class TestRemainderOfC(OpConformance):
    op = tpu.Remainder(fmod=True)

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return np.array([math.fmod(a, b) for a, b in zip(x, y, strict=True)], np.float32)

    samples = ([f32(7, -7, 7, -7, 6), f32(3, 3, -3, -3, 3)],)
    flops = 8


class TestBitwise(OpConformance):
    op = tpu.Bitwise(mode="ShiftLeft", bits=8)

    @staticmethod
    def reference(x: Array, y: Array) -> Array:
        return np.array([float((int(a) << int(b)) % 256) for a, b in zip(x, y, strict=True)], np.float32)

    samples = ([f32(3, 255, 128), f32(2, 3, 1)],)
    flops = 1


class TestTruncate(OpConformance):
    op = tpu.Truncate(to="INT8")

    @staticmethod
    def reference(x: Array) -> Array:
        return np.array([float((int(v) + 128) % 256 - 128) for v in x], np.float32)

    samples = ([f32(3.7, -3.7, 127, 128, -129, 600)],)
    flops = 1


def test_updates_alone_need_a_declared_type() -> None:
    assert tpu.ScatterRows().infer((ABSENT, TensorType((1, 3), I32), TensorType((1, 3, 1), F32))) is None


def test_rows_and_indices_must_fit() -> None:
    with pytest.raises(ValueError, match="indices 2x3 do not fit 3x5x2"):
        tpu.GatherRows().infer((TensorType((3, 5, 2), F32), TensorType((2, 3), I32)))


def test_only_integer_types_truncate() -> None:
    with pytest.raises(ValueError, match="to must be an integer type, this one is FLOAT16"):
        tpu.Truncate(to="FLOAT16").infer((TensorType((2,), F32),))
