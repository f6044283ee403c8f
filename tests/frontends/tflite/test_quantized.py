"""Quantized operators against TFLite's integer arithmetic, written down here in Python's unbounded integers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from tpuc.api import Uniform

from tests.frontends.tflite.files import RELU6, SAME, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, ops_of, read, single, stored

Array = NDArray[Any]
SHAPE = (1, 5, 4, 6)
KINDS = ["INT8", "UINT8"]


def multiplier(factor: float) -> tuple[int, int]:
    """`factor` as ``m * 2**(e - 31)`` with 31 bits."""
    fraction, exponent = math.frexp(factor)
    m = math.floor(Fraction(fraction) * (1 << 31) + Fraction(1, 2))
    return (m // 2, exponent + 1) if m == 1 << 31 else (m, exponent)


def scaled(x: int, factor: float) -> int:
    """A doubling high product rounded half up, then a power of two rounded half away from zero."""
    m, exponent = multiplier(factor)
    x <<= max(exponent, 0)
    product = math.floor(Fraction(x * m, 1 << 31) + Fraction(1, 2))
    return away(Fraction(product, 1 << max(-exponent, 0)))


def away(x: Fraction) -> int:
    """Rounded half away from zero."""
    return math.floor(abs(x) + Fraction(1, 2)) * (1 if x > 0 else -1)


def single_precision(*factors: float) -> float:
    """A product and quotient of float32 numbers, rounded at each step: the last one divides."""
    *tops, bottom = (np.float32(factor) for factor in factors)
    product = tops[0]
    for top in tops[1:]:
        product *= top
    return float(product / bottom)


def f32(number: float) -> float:
    return float(np.float32(number))


def limits(kind: str) -> tuple[int, int]:
    info = np.iinfo(kind.lower())
    return int(info.min), int(info.max)


def tensor(name: str, kind: str, scale: float, zero: int, shape: Sequence[int] = SHAPE) -> Tensor:
    return Tensor(name, tuple(shape), kind, None, (scale,), (zero if kind == "INT8" else zero + 128,))


def each(function: Callable[..., int], kind: str, zero: int, *arrays: Array) -> Array:
    """`function` of each element, plus the zero point, within the type."""
    low, high = limits(kind)
    wide = np.vectorize(lambda *items: min(max(function(*map(int, items)) + zero, low), high), otypes=[np.int64])
    return wide(*arrays).astype(kind.lower())


def run(folder: Path, op: str, operands: list[Tensor], result: Tensor, options: Any, *inputs: Array) -> Array:
    return compute(single(folder, op, operands, result, options), *inputs)[0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sign", [1, -1])
def test_sums(kind: str, sign: int, tmp_path: Path) -> None:
    x, w, y = tensor("x", kind, 0.05, 3), tensor("w", kind, 0.031, -14), tensor("y", kind, 0.07, 5)
    a, b = stored(kind.lower(), *SHAPE), stored(kind.lower(), *SHAPE, seed=1)
    zx, zw, zy = (t.zeros[0] for t in (x, w, y))
    sx, sw, sy = f32(0.05), f32(0.031), f32(0.07)
    common = 2 * sx

    def total(p: int, q: int) -> int:
        parts = scaled((p - zx) << 20, sx / common) + sign * scaled((q - zw) << 20, sw / common)
        return scaled(parts, common / ((1 << 20) * sy))

    options = ("AddOptions", {}) if sign > 0 else ("SubOptions", {})
    result = run(tmp_path, "ADD" if sign > 0 else "SUB", [x, w], y, options, a, b)
    np.testing.assert_array_equal(result, each(total, kind, zy, a, b))


@pytest.mark.parametrize("kind", KINDS)
def test_product_with_a_constant_and_a_relu(kind: str, tmp_path: Path) -> None:
    x, y = tensor("x", kind, 0.05, 3), tensor("y", kind, 0.07, 5)
    b = stored(kind.lower(), 6, seed=1)
    zw = 9 if kind == "INT8" else 120
    a, w = stored(kind.lower(), *SHAPE), constant("w", b, (0.031,), (zw,))
    factor = single_precision(0.05, 0.031, 0.07)
    top = away(Fraction(6) / Fraction(f32(0.07)))
    expected = each(
        lambda p, q: min(max(scaled((p - x.zeros[0]) * (q - zw), factor), 0), top),
        kind,
        y.zeros[0],
        a,
        np.broadcast_to(b, SHAPE),
    )
    result = run(tmp_path, "MUL", [x, w], y, ("MulOptions", {"FusedActivationFunction": RELU6}), a)
    np.testing.assert_array_equal(result, expected)


def convolution(kind: str, folder: Path) -> tuple[Array, Array, float, Tensor]:
    """A result, the exact sums that it comes from (channels last), the factors, and the result's tensor."""
    per_channel = kind == "INT8"
    x, y = tensor("x", kind, 0.05, 3), tensor("y", kind, 0.6, -7, (1, 3, 2, 8))
    weight = stored(kind.lower(), 8, 3, 3, 6, seed=2)
    bias = np.random.default_rng(3).integers(-3000, 3000, 8).astype(np.int32)
    scales = tuple(np.linspace(0.001, 0.01, 8).tolist()) if per_channel else (0.004,)
    zero = 0 if per_channel else 128
    operands = [
        x,
        constant("w", weight, scales, (zero,) * len(scales)),
        constant("b", bias, [0.05 * s for s in scales]),
    ]
    a = stored(kind.lower(), *SHAPE)
    result = run(folder, "CONV_2D", operands, y, ("Conv2DOptions", {"Padding": SAME, "StrideH": 2, "StrideW": 2}), a)
    centered = np.pad(a.astype(np.int64) - x.zeros[0], ((0, 0), (1, 1), (0, 1), (0, 0)))
    under = sliding_window_view(centered, (3, 3), (1, 2))[:, ::2, ::2]
    sums = np.einsum("nhwckl,oklc->nhwo", under, weight.astype(np.int64) - zero) + bias
    factors: Any = np.float32(0.05) * np.array(scales, np.float32) / np.float32(0.6)
    return result, sums, factors, y


@pytest.mark.parametrize("kind", KINDS)
def test_convolutions(kind: str, tmp_path: Path) -> None:
    result, sums, factors, y = convolution(kind, tmp_path)
    rounded = np.rint(sums.astype(np.float32) * factors).astype(np.int64) + y.zeros[0]
    np.testing.assert_array_equal(result, np.clip(rounded, *limits(kind)))
    exact = sums * np.asarray(factors, np.float64) + y.zeros[0]
    inside = (exact > limits(kind)[0]) & (exact < limits(kind)[1])
    assert inside.mean() > 0.5
    # Half a step for rounding, and what a float32 product of that size loses.
    assert np.abs(result - exact)[inside].max() <= 0.5 + 1e-4


def test_depthwise_scales_follow_their_channels(tmp_path: Path) -> None:
    x, y = tensor("x", "INT8", 0.05, 3), tensor("y", "INT8", 0.2, 4)
    weight, scales = stored("int8", 1, 3, 3, 6, seed=2), np.linspace(0.001, 0.02, 6)
    operands = [x, constant("w", weight, scales.tolist(), (0,) * 6, axis=3)]
    a = stored("int8", *SHAPE)
    geometry = {"Padding": SAME, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1}
    result = run(tmp_path, "DEPTHWISE_CONV_2D", operands, y, ("DepthwiseConv2DOptions", geometry), a)
    under = sliding_window_view(np.pad(a.astype(np.int64) - 3, ((0, 0), (1, 1), (1, 1), (0, 0))), (3, 3), (1, 2))
    sums = np.einsum("nhwckl,klc->nhwc", under, weight[0].astype(np.int64))
    factors = np.float32(0.05) * scales.astype(np.float32) / np.float32(0.2)
    expected = np.clip(np.rint(sums.astype(np.float32) * factors) + 4, -128, 127)
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_pools_of_stored_integers(kind: str, tmp_path: Path) -> None:
    x = tensor("x", kind, 0.05, 3)
    y = Tensor("y", (1, 3, 2, 6), kind, None, x.scales, x.zeros)
    a = stored(kind.lower(), *SHAPE)
    options = ("Pool2DOptions", {"Padding": SAME, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3})
    average = run(tmp_path, "AVERAGE_POOL_2D", [x], y, options, a)
    largest = run(tmp_path, "MAX_POOL_2D", [x], y, options, a)
    for row, column, channel in np.ndindex(3, 2, 6):
        window = a[0, max(2 * row - 1, 0) : 2 * row + 2, 2 * column : 2 * column + 3, channel].astype(int)
        assert average[0, row, column, channel] == away(Fraction(int(window.sum()), window.size))
        assert largest[0, row, column, channel] == window.max()


@pytest.mark.parametrize("kind", KINDS)
def test_mean(kind: str, tmp_path: Path) -> None:
    x, y = tensor("x", kind, 0.05, 3), tensor("y", kind, 0.04, -9, (1, 6))
    a = stored(kind.lower(), *SHAPE)
    axes = constant("axes", np.array([1, 2], np.int32))
    result = run(tmp_path, "MEAN", [x, axes], y, ("ReducerOptions", {"KeepDims": False}), a)
    m, exponent = multiplier(f32(0.05) / f32(0.04))
    places = min((20).bit_length() - 1, 31 + exponent)
    m, exponent = (m << places) // 20, exponent - places

    def mean(total: int) -> int:
        total <<= max(exponent, 0)
        return away(Fraction(math.floor(Fraction(total * m, 1 << 31) + Fraction(1, 2)), 1 << max(-exponent, 0)))

    sums = a.astype(np.int64).sum((1, 2)) - 20 * x.zeros[0]
    np.testing.assert_array_equal(result, each(mean, kind, y.zeros[0], sums))


@pytest.mark.parametrize("other", [SHAPE, (6,)])
def test_squared_differences(other: tuple[int, ...], tmp_path: Path) -> None:
    x, w, y = tensor("x", "INT8", 0.05, 3), tensor("w", "INT8", 0.031, -14, other), tensor("y", "INT8", 0.2, -100)
    a, b = stored("int8", *SHAPE), stored("int8", *other, seed=1)
    sx, sw, sy = f32(0.05), f32(0.031), f32(0.2)

    def square(p: int, q: int) -> int:
        difference = scaled((p - 3) << 7, sx / (2 * sx)) - scaled((q + 14) << 7, sw / (2 * sx))
        return scaled(difference**2, (2 * sx) ** 2 / (sy * 2**14))

    result = run(tmp_path, "SQUARED_DIFFERENCE", [x, w], y, None, a, b)
    np.testing.assert_array_equal(result, each(square, "INT8", -100, a, np.broadcast_to(b, SHAPE)))


def reciprocal_root(total: int) -> tuple[int, int]:
    """Five steps of Newton's method from 1, on numbers with 28 places after the point, towards ``1 / sqrt(total)`` as
    ``m * 2**(-31 - right)``: the sum is first brought below 2**29 and then to 2**27 or more.
    """
    if total <= 1:
        return (1 << 31) - 1, 0
    right = 11
    while total >= 1 << 29:
        total, right = total // 4, right + 1
    while total < 1 << 27:
        total, right = total * 4, right - 1

    def product(p: int, q: int) -> int:
        return math.floor(Fraction(p * q, 1 << 31) + Fraction(1, 2))

    root, half = 1 << 28, away(Fraction(total // 2, 2))
    for _ in range(5):
        cube = product(product(root, root), root) * 64
        root = (product(3 << 27, root) - product(half, cube)) * 8
    m = product(root, 1518500250)  # the root of 1/2 in 31 bits
    return m << max(-right, 0), max(right, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(1, 5, 4, 6), (3, 700), (9, 2, 1), (8,)])
def test_rows_of_length_1(shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    x, y = tensor("x", kind, 0.05, 3, shape), tensor("y", kind, 1 / 128, 0, shape)
    a = stored(kind.lower(), *shape)
    a.reshape(-1, shape[-1])[0] = x.zeros[0]  # a row of zeros
    a.reshape(-1)[0] += len(shape) > 1  # or of one 1
    result = run(tmp_path, "L2_NORMALIZATION", [x], y, None, a)
    centered = a.astype(np.int64) - x.zeros[0]

    def entry(p: int, total: int) -> int:
        m, right = reciprocal_root(total)
        if kind == "UINT8":
            p, shift = p * 128, -right
        else:
            p, shift = p << max(7 - right, 0), min(7 - right, 0)
        return away(Fraction(math.floor(Fraction(p * m, 1 << 31) + Fraction(1, 2)), 1 << -shift))

    totals = np.broadcast_to((centered**2).sum(-1, keepdims=True), shape)
    np.testing.assert_array_equal(result, each(entry, kind, y.zeros[0], centered, totals))
    # Both the roots' error and two roundings are within a step of the exact quotient.
    exact = centered / np.sqrt(np.maximum(totals, 1)) * 128 + y.zeros[0]
    assert np.abs(result - np.clip(exact, *limits(kind))).max() <= 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_leaky_relu_and_relu(kind: str, tmp_path: Path) -> None:
    x, y = tensor("x", kind, 0.05, 3), tensor("y", kind, 0.04, -9)
    a, zero = stored(kind.lower(), *SHAPE), x.zeros[0]
    identity, slope = f32(0.05) / f32(0.04), single_precision(0.05, 0.1, 0.04)
    result = run(tmp_path, "LEAKY_RELU", [x], y, ("LeakyReluOptions", {"Alpha": 0.1}), a)
    expected = each(lambda p: scaled(p - zero, identity if p >= zero else slope), kind, y.zeros[0], a)
    np.testing.assert_array_equal(result, expected)
    result = run(tmp_path, "RELU", [x], y, None, a)
    factor = single_precision(0.05, 0.04)
    np.testing.assert_array_equal(result, each(lambda p: max(scaled(p - zero, factor), 0), kind, y.zeros[0], a))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("op", "function"), [("LOGISTIC", lambda v: 1 / (1 + math.exp(-v))), ("TANH", math.tanh)])
def test_tables(op: str, function: Callable[[float], float], kind: str, tmp_path: Path) -> None:
    x, y = tensor("x", kind, 0.05, 3, (256,)), tensor("y", kind, 1 / 128, 0, (256,))
    every = np.arange(256).astype(np.uint8).view(kind.lower())
    result = run(tmp_path, op, [x], y, None, every)
    real = [function(f32(0.05) * (int(q) - x.zeros[0])) * 128 for q in every]
    # No value lies so near a tie that float32 could round it elsewhere.
    assert min(abs(abs(v - math.floor(v)) - 0.5) for v in real) > 1e-4
    expected = [min(max(math.floor(v + 0.5) + y.zeros[0], limits(kind)[0]), limits(kind)[1]) for v in real]
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_softmax(kind: str, tmp_path: Path) -> None:
    x, y = tensor("x", kind, 0.1, 3, (7, 11)), tensor("y", kind, 1 / 256, -128, (7, 11))
    a = stored(kind.lower(), 7, 11)
    result = run(tmp_path, "SOFTMAX", [x], y, ("SoftmaxOptions", {"Beta": 1.0}), a)
    e = np.exp(f32(0.1) * (a.astype(np.float64) - a.max(1, keepdims=True).astype(np.float64)))
    exact = e / e.sum(1, keepdims=True) * 256
    assert np.abs(np.abs(exact - np.floor(exact)) - 0.5).min() > 1e-4
    np.testing.assert_array_equal(result, np.clip(np.floor(exact + 0.5) + y.zeros[0], *limits(kind)))


def test_scales_change_through_floats_and_integers(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", (1, 64)),
        tensor("q", "INT8", 0.05, 3, (1, 64)),
        tensor("r", "UINT8", 0.031, -9, (1, 64)),
        Tensor("y", (1, 64)),
    ]
    nodes = [
        Node("QUANTIZE", ["x"], ["q"], ("QuantizeOptions", {})),
        Node("QUANTIZE", ["q"], ["r"], ("QuantizeOptions", {})),
        Node("DEQUANTIZE", ["r"], ["y"], ("DequantizeOptions", {})),
    ]
    module = read(tflite_file(tensors, nodes, ["x"], ["q", "r", "y"]), tmp_path)
    x = np.random.default_rng(0).uniform(-8, 8, (1, 64)).astype(np.float32)
    q, r, y = compute(module, x)
    np.testing.assert_array_equal(q, np.clip(np.round(x / np.float32(0.05)) + 3, -128, 127))
    np.testing.assert_array_equal(r, each(lambda p: scaled(p - 3, f32(0.05) / f32(0.031)), "UINT8", 119, q))
    np.testing.assert_array_equal(y, np.float32(f32(0.031) * (r.astype(np.float64) - 119)))


def test_padding_is_zero_in_the_operands_scale(tmp_path: Path) -> None:
    x = tensor("x", "INT8", 0.05, 3)
    y = Tensor("y", (1, 7, 4, 6), "INT8", None, x.scales, x.zeros)
    pads = constant("p", np.array([[0, 0], [1, 1], [0, 0], [0, 0]], np.int32))
    a = stored("int8", *SHAPE)
    result = run(tmp_path, "PAD", [x, pads], y, ("PadOptions", {}), a)
    np.testing.assert_array_equal(result, np.pad(a, ((0, 0), (1, 1), (0, 0), (0, 0)), constant_values=3))


def test_types_are_in_the_module(tmp_path: Path) -> None:
    x, y = tensor("x", "INT8", 0.05, 3), tensor("y", "INT8", 0.04, -9)
    module = single(tmp_path, "LEAKY_RELU", [x], y, ("LeakyReluOptions", {"Alpha": 0.1}))
    assert str(module.attributes["module.state"]) == '"TOP_QUANTIZED"' or ops_of(module) == ["LeakyRelu"]
    element = module.main.outputs[0].tensor.element
    assert isinstance(element, Uniform)
    assert (str(element.storage), element.scale, element.zero_point) == ("i8", f32(0.04), -9)


@pytest.mark.parametrize("kind", ["INT8", "UINT8", "INT16"])
def test_pieces_of_networks_whose_results_state_no_scale(kind: str, tmp_path: Path) -> None:
    """Integers of the operand's kind keep its scale; floats are what the operand stands for."""
    scale, zero = 0.05, 0 if kind == "INT16" else 3
    x = Tensor("x", SHAPE, kind, None, (scale,), (zero,))
    begin, size, order = (constant("c", np.array(one, np.int32)) for one in ((0, 1, 0, 2), (1, 3, 4, 2), (0, 2, 1, 3)))
    size = Tensor("s", size.shape, size.kind, size.data)
    moves: list[tuple[str, Sequence[Tensor], tuple[str, dict[str, Any]], Callable[[Array], Array]]] = [
        ("SLICE", [begin, size], ("SliceOptions", {}), lambda a: a[:, 1:4, :, 2:4]),
        ("TRANSPOSE", [order], ("TransposeOptions", {}), lambda a: a.transpose(0, 2, 1, 3)),
    ]
    a = stored(kind.lower(), *SHAPE)
    for op, constants, options, moved in moves:
        want = moved(a)
        (got,) = compute(single(tmp_path, op, [x, *constants], Tensor("y", want.shape, kind), options), a)
        np.testing.assert_array_equal(got, want, err_msg=op)
        (got,) = compute(single(tmp_path, op, [x, *constants], Tensor("y", want.shape), options), a)
        np.testing.assert_allclose(got, f32(scale) * (want.astype(np.float64) - zero), rtol=1e-6, err_msg=op)
