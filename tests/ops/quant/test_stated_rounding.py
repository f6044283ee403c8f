"""Integers that only stand for floats: what ONNX says about ops between casts, computed here in numpy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import F32, Node, Op, ScalarType, TensorType, Uniform
from tpuc_ops import top

from tests.families import each

Array = NDArray[Any]
RNG = np.random.default_rng(0)
EVEN = "HalfToEven"


def type_of(array: Array, scale: float, zero_point: int, kind: str = "u8") -> TensorType:
    return TensorType(array.shape, Uniform(ScalarType(kind), F32, scale, zero_point))


def meaning(array: Array, scale: float, zero_point: int) -> NDArray[np.float32]:
    return (array.astype(np.int64) - zero_point).astype(np.float32) * np.float32(scale)


def quantized(values: Array, scale: float, zero_point: int) -> Array:
    return np.clip(np.rint(values / np.float32(scale)) + zero_point, 0, 255).astype(np.uint8)


def evaluated(op: Op, operands: Sequence[Array], types: Sequence[TensorType], result: TensorType) -> Array:
    (y,) = op.evaluate(Node(op, tuple(types), (result,), "n"), operands)
    return y


X = RNG.integers(0, 256, (1, 2, 6, 6)).astype(np.uint8)
Y = RNG.integers(0, 256, (1, 2, 6, 6)).astype(np.uint8)
FIRST, SECOND, RESULT = (0.5, 100), (1 / 256, 0), (0.25, 30)

TWO: dict[str, tuple[Op, Callable[[Array, Array], Array]]] = {
    "sum": (top.Add(round_mode=EVEN), np.add),
    "difference": (top.Sub(round_mode=EVEN), np.subtract),
    "product": (top.Mul(round_mode=EVEN), np.multiply),
    "sum with a relu": (top.Add(round_mode=EVEN, do_relu=True), lambda x, y: np.maximum(x + y, 0)),
    "joint": (top.Concat(axis=1, round_mode=EVEN), lambda x, y: np.concatenate([x, y], 1)),
}


@each("name", TWO)
def test_two_operands(name: str) -> None:
    op, function = TWO[name]
    values = function(meaning(X, *FIRST), meaning(Y, *SECOND))
    got = evaluated(op, [X, Y], [type_of(X, *FIRST), type_of(Y, *SECOND)], type_of(values, *RESULT))
    assert got.dtype == np.uint8
    assert np.array_equal(got, quantized(values, *RESULT))


ONE: dict[str, tuple[Op, Callable[[Array], Array]]] = {
    "function": (top.Sigmoid(round_mode=EVEN), lambda x: 1 / (1 + np.exp(-x))),
    "slope": (top.LeakyRelu(alpha=0.1, round_mode=EVEN), lambda x: np.where(x < 0, np.float32(0.1) * x, x)),
    "mean": (top.Reduce(axes=(2, 3), mode="ReduceMean", round_mode=EVEN), lambda x: x.mean((2, 3), keepdims=True)),
    "rectifier": (top.Relu(round_mode=EVEN), lambda x: np.maximum(x, 0)),
}


@each("name", ONE)
def test_one_operand(name: str) -> None:
    op, function = ONE[name]
    values = np.asarray(function(meaning(X, *FIRST)), np.float32)
    got = evaluated(op, [X], [type_of(X, *FIRST)], type_of(values, *RESULT))
    assert np.abs(got.astype(int) - quantized(values, *RESULT)).max() == 0


def test_halves_go_to_even_numbers() -> None:
    """0.5, 1.5 and 2.5 steps; TFLite's arithmetic, which is the default, takes them away from zero."""
    x = np.array([[1, 3, 5]], np.uint8)
    types, result = [type_of(x, 1.0, 0)], type_of(x, 2.0, 0)
    assert evaluated(top.MulConst(const_val=1.0, round_mode=EVEN), [x], types, result).tolist() == [[0, 2, 2]]
    assert evaluated(top.MulConst(const_val=1.0), [x], types, result).tolist() == [[1, 2, 3]]


@each("counts_pads", [False, True])
def test_means_in_another_scale(counts_pads: bool) -> None:
    op = top.AvgPool(kernel_shape=(2, 2), strides=(2, 2), pads=(1, 1, 1, 1), count_include_pad=counts_pads)
    x = np.pad(meaning(X, *FIRST), ((0, 0), (0, 0), (1, 1), (1, 1)))
    ones = np.pad(np.ones((6, 6)), 1) if not counts_pads else np.ones((8, 8))
    sums = x.reshape(1, 2, 4, 2, 4, 2).sum((3, 5), dtype=np.float64)
    values = sums / ones.reshape(4, 2, 4, 2).sum((1, 3))
    got = evaluated(op, [X], [type_of(X, *FIRST)], type_of(values, *RESULT))
    assert np.array_equal(got, quantized(values, *RESULT))


def test_means_are_exact() -> None:
    """A quarter of the sums of four are halves, which sums of this scale's float32 multiples miss."""
    x = np.stack([np.arange(256), np.zeros(256), np.full(256, 3), np.full(256, 200)]).astype(np.uint8)
    op = top.AvgPool(kernel_shape=(4, 1), strides=(1, 1), round_mode=EVEN)
    stated = (0.015448322519659996, 42)
    got = evaluated(op, [x[None, None]], [type_of(x[None, None], *stated)], type_of(np.zeros((1, 1, 1, 256)), *stated))
    centered = x.astype(np.int64) - stated[1]
    expected = [round(Fraction(int(total), 4)) + stated[1] for total in centered.sum(axis=0)]
    assert got.reshape(-1).tolist() == expected
