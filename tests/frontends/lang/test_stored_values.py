"""Integers that stand for real values: by the scales that a call states, against numpy on those values.

Scales are powers of two, so that floats hold every value and only the result is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import tpuc_lang as tl

from tests.families import each
from tests.frontends.lang.cases import convolved_volumes
from tests.frontends.lang.programs import Array, begin_anew, const, evaluated, integers
from tests.frontends.lang.test_whole_numbers import clipped, data_of, filters


def away(x: Array) -> Array:
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def stored(values: Array, scale: float, point: int, dtype: str = "int8", near: Callable[..., Array] = away) -> Array:
    return clipped(near(values / scale) + point, dtype)


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "erf": np.vectorize(math.erf),
    "exp": np.exp,
    "floor": np.floor,
    "gelu": lambda x: x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2,
    "hsigmoid": lambda x: (x / 6 + 0.5).clip(0, 1),
    "hswish": lambda x: x * (x / 6 + 0.5).clip(0, 1),
    "ln": np.log,
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": lambda x: x * x,
    "tanh": np.tanh,
}


@each("name", FUNCTIONS)
def test_functions(name: str) -> None:
    begin_anew()
    data = np.arange(1, 127) if name in ("ln", "rsqrt", "sqrt") else np.arange(-128, 128)
    x = tl.Tensor(data=data, dtype="int8")
    y = getattr(tl, name)(x, [0.03125, 0.015625], [0, -3], "out")
    assert (y.dtype, y.name, y.scale, y.zero_point) == ("int8", "out", 0.015625, -3)
    exact = FUNCTIONS[name](data * 0.03125) / 0.015625
    wanted = clipped(away(exact) - 3, "int8")
    found = evaluated(y, [x])[0]
    near_a_tie = np.abs(np.abs(exact) % 1 - 0.5) < 1e-3  # where floats may round the other way
    np.testing.assert_array_equal(found[~near_a_tie], wanted[~near_a_tie])
    assert near_a_tie.mean() < 0.6


def test_swish_and_softmax() -> None:
    x = integers(2, 40)
    results = [
        tl.swish(x, 1.5, [0.03125, 0.015625], [0, 2]),
        tl.softmax_int(x, 1, [0.03125, 0.00390625], [0, -128]),
    ]
    found = evaluated(results, [x])
    values = data_of(x) * 0.03125
    assert np.abs(found[0] - stored(values / (1 + np.exp(-1.5 * values)), 0.015625, 2)).max() <= 1
    x2 = np.exp(data_of(x) * 0.03125)
    assert np.abs(found[1] - stored(x2 / x2.sum(1, keepdims=True), 0.00390625, -128)).max() <= 1


@each(
    ("name", "function"),
    [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("max", np.maximum), ("min", np.minimum)],
)
def test_two_operands(name: str, function: Callable[..., Array]) -> None:
    x, y = integers(2, 3, 20), integers(2, 1, 20, seed=1)
    result = getattr(tl, name)(x, y, [0.5, 0.25, 1.0], [1, 2, 3])
    number = getattr(tl, name)(x, tl.Scalar(4, "int8"), [0.5, 0.25, 1.0], [1, 2, 3])
    found = evaluated([result, number], [x, y])
    left, right = (data_of(x) - 1) * 0.5, (data_of(y) - 2) * 0.25
    np.testing.assert_array_equal(found[0], stored(function(left, right), 1.0, 3, near=np.rint))
    np.testing.assert_array_equal(found[1], stored(function(left, (4 - 2) * 0.25), 1.0, 3, near=np.rint))


@each("name", ["gt", "lt", "ge", "le", "eq", "ne"])
def test_relations(name: str) -> None:
    relation = {
        "gt": np.greater,
        "lt": np.less,
        "ge": np.greater_equal,
        "le": np.less_equal,
        "eq": np.equal,
        "ne": np.not_equal,
    }[name]
    x, y = integers(2, 60), integers(2, 60, seed=1)
    both = getattr(tl, name)(x, y, [0.5, 0.5, 0.25], [1, 1, 2])
    number = getattr(tl, f"{name}s")(x, 0.5, [0.5, 0.25], [1, 2])
    plain = getattr(tl, name)(x, y)
    assert (both.dtype, plain.dtype) == ("int8", "int8")
    with pytest.raises(tl.LangError, match="both operands need the same scale"):
        getattr(tl, name)(x, y, [0.5, 1.0, 0.25])
    z = tl.Tensor(data=data_of(y), dtype="int8")
    found = evaluated([both, number, getattr(tl, name)(z, z)], [x, y, z])
    np.testing.assert_array_equal(found[0], np.where(relation(data_of(x), data_of(y)), 6, 2))
    np.testing.assert_array_equal(found[1], np.where(relation(data_of(x), 2), 6, 2))
    np.testing.assert_array_equal(found[2], relation(data_of(y), data_of(y)))


def test_conv_quant() -> None:
    x, w = integers(1, 4, 6, 5, dtype="uint8"), filters(3, 4, 2, 2)
    bias, scales = np.array([40, -70, 900]), np.array([0.5, 0.25, 0.125])
    y = tl.conv_quant(
        *(x, const(w, "int8"), const(bias, "int32"), [2, 1], None, [1, 0, 0, 1], 1),
        *(0.25, scales.tolist(), 16.0, 3, [0, 0, 0], -5),
    )
    assert (y.dtype, y.scale, y.zero_point) == ("int8", 16.0, -5)
    sums = convolved_volumes((data_of(x) - 3)[:, :, None], w[:, :, None], (1, 2, 1), (0, 1, 0, 0, 0, 1))[:, :, 0]
    values = (sums + bias.reshape(3, 1, 1)) * 0.25 * scales.reshape(3, 1, 1)
    np.testing.assert_array_equal(evaluated(y, [x])[0], stored(values, 16.0, -5, near=np.rint))


def test_conv3d_quant() -> None:
    x, w = integers(1, 2, 3, 4, 5), filters(3, 2, 2, 2, 3)
    y = tl.conv3d_quant(
        x, const(w, "int8"), input_scale=0.5, weight_scale=0.25, output_scale=64.0, input_zp=1, out_dtype="uint8"
    )
    values = convolved_volumes(data_of(x) - 1, w, (1, 1, 1), (0,) * 6) * 0.125
    np.testing.assert_array_equal(evaluated(y, [x])[0], stored(values, 64.0, 0, "uint8", np.rint))


def test_matmul_quant() -> None:
    x, w = integers(2, 3, 8), filters(2, 8, 5)
    y = tl.matmul_quant(
        x,
        const(w.swapaxes(1, 2), "int8"),
        const(np.arange(5), "int32"),
        right_transpose=True,
        input_scale=0.5,
        right_scale=0.25,
        output_scale=32.0,
        input_zp=1,
        right_zp=2,
        output_zp=3,
    )
    values = ((data_of(x) - 1) @ (w - 2) + np.arange(5)) * 0.125
    np.testing.assert_array_equal(evaluated(y, [x])[0], stored(values, 32.0, 3, near=np.rint))


def test_pools_and_concat() -> None:
    x, z = integers(1, 2, 4, 6), integers(1, 2, 2, 4, 6)
    y = integers(1, 3, 4, 6, seed=1)
    results = [
        tl.maxpool2d(x, [2, 2], [2, 2], scale=[0.5, 2.0], zero_point=[1, 3]),
        tl.avgpool2d(x, [2, 2], [2, 2], scale=[0.5, 0.25], zero_point=[1, 3]),
        tl.maxpool3d(z, 2, 2, scale=[0.5, 0.25], round_mode="half_to_even"),
        tl.avgpool3d(z, 2, 2, scale=[0.5, 0.5]),
        tl.concat([x, y], [0.5, 0.25, 1.0], [1, 2, 3], axis=1),
    ]
    found = evaluated(results, [x, y, z])
    blocks = ((data_of(x) - 1) * 0.5).reshape(1, 2, 2, 2, 3, 2)
    cubes = (data_of(z) * 0.5).reshape(1, 2, 1, 2, 2, 2, 3, 2)
    np.testing.assert_array_equal(found[0], stored(blocks.max((3, 5)), 2.0, 3))
    np.testing.assert_array_equal(found[1], stored(blocks.mean((3, 5)), 0.25, 3))
    np.testing.assert_array_equal(found[2], stored(cubes.max((3, 5, 7)), 0.25, 0))
    np.testing.assert_array_equal(found[3], stored(cubes.mean((3, 5, 7)), 0.5, 0))
    joined = np.concatenate([(data_of(x) - 1) * 0.5, (data_of(y) - 2) * 0.25], 1)
    np.testing.assert_array_equal(found[4], stored(joined, 1.0, 3))


def test_mean_std_scale() -> None:
    x = integers(1, 3, 4, 5, dtype="uint8")
    y = tl.mean_std_scale(x, [2, 4, 8], [1, 2, 3], [1.0, 0.5], [0, 3], odtype="int8")
    values = (data_of(x) - np.array([1, 2, 3]).reshape(3, 1, 1)) / np.array([2, 4, 8]).reshape(3, 1, 1)
    np.testing.assert_array_equal(evaluated(y, [x])[0], stored(values, 0.5, 3))


@each("layout", [0, 1, 2, 3])
@each("formula", ["_601_limited", "_601_full"])
def test_yuv2rgb(layout: int, formula: str) -> None:
    x = integers(2, 6, 4, dtype="uint8")
    order = 4 + layout % 2
    output = tl.yuv2rgb(x, layout, order, "UINT8", formula, "HalfAwayFromZero")
    whole = data_of(x)
    colors = whole[:, 4:].reshape(2, 2, 2, 2) if layout < 2 else whole[:, 4:].reshape(2, 2, 2, 2).transpose(0, 3, 1, 2)
    u, v = colors[:, 0], colors[:, 1]
    if layout % 2:
        u, v = v, u
    u, v = (one.repeat(2, 1).repeat(2, 2) - 128.0 for one in (u, v))
    limited = formula == "_601_limited"
    y = (whole[:, :4] - 16) * 255 / 219 if limited else whole[:, :4].astype(np.float64)
    u, v = (u * 255 / 224, v * 255 / 224) if limited else (u, v)
    planes = [y + 1.402 * v, y - (0.114 * 1.772 * u + 0.299 * 1.402 * v) / 0.587, y + 1.772 * u]
    exact = np.stack(planes if order == 4 else planes[::-1], 1)
    found = evaluated(output, [x])[0]
    assert output.shape == (2, 3, 4, 4)
    assert np.abs(found - np.clip(exact, 0, 255)).max() <= 0.5 + 1e-3
