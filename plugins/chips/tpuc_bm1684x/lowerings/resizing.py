"""Lower Interp: images resized by nearest neighbor or linearly."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_chip_parts.lowering import images_refusal, interpolation_matrix, is_stated, whole_factors
from tpuc_ops import top, tpu
from tpuc_ops.quant.arithmetic import decompose_frexp31

from tpuc_bm1684x.kernels.common import MAX_WINDOW_STEP
from tpuc_bm1684x.lowerings.common import ALL, FLOATS, Array, float_weight, has_zero_points
from tpuc_bm1684x.lowerings.sums import scaled_sums
from tpuc_bm1684x.lowerings.table import TABLE

_MOST_TAPS = 16
"""Largest filter for which one pass over rows and columns is faster than two. Its whole weights fit in bytes."""
_SMALL = 1 << 14
"""Largest matrix that resizes whole images at once: products per row would move every short row of them. With twice
or half as many elements, images of 7x7 are still small and images of 14x14 are not.
"""
Node: TypeAlias = "LoweringNode[top.Interp]"


@TABLE.lowers(top.Interp, *ALL)
class InterpAny(Lowering[top.Interp]):
    """Repeats stored values for nearest-neighbor scaling by whole factors, and single rows or columns.

    Linear scaling by whole factors repeats the border, and spreads every value over its neighborhood by a depthwise
    transposed convolution. Other scaling multiplies by matrices. Integers without zero points are
    spread in one pass with exact shares where that is fast; others are computed in f32.
    """

    float_sums = True

    def refuse(self, node: LoweringNode) -> str | None:
        return images_refusal(node)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        rest = (Wants.AS_IS,) * (len(node.operand_types) - 1)
        if _is_repeated(node) or _factors(node, "nearest") is not None:
            return (Wants.AS_IS, *rest)
        in_mode = node.mode in FLOATS or _in_bytes(node) is not None
        return (Wants.MODE if in_mode else Wants.FLOAT, *rest)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value, dims = node.operands[0], node.result_type.dims
        if _is_repeated(node):
            _, _, below, right = (after - before for before, after in zip(value.tensor.dims, dims, strict=True))
            op = tpu.Pad(paddings=(0, 0, 0, 0, 0, 0, below, right), mode="edge")
            return [build(op, [value], value.tensor.with_shape(dims).at(None))]
        factors = _factors(node, "nearest")
        if factors is not None:
            lowered = tpu.Upsample(scale_h=factors[0], scale_w=factors[1])
            return [build(lowered, [value], value.tensor.with_shape(dims).at(None))]
        if value.tensor.is_quantized and has_zero_points(value.tensor):
            wide = value.tensor.with_element(node.float_result_type().element).at(None)
            value = build(tpu.Cast(with_scale=True), [value], wide, f"{node.name}_float")
        factors = _factors(node, "linear")
        if factors is None:
            return [_by_matrices(node, build, value)]
        if value.tensor.is_quantized:
            return [_bytes_spread(node, build, value, factors)]
        return [_spread(node, build, value, factors)]


def _is_repeated(node: Node) -> bool:
    """True if every dimension that changes has a single place, which is repeated."""
    pairs = list(zip(node.operand_types[0].dims[2:], node.result_type.dims[2:], strict=True))
    return any(before != after for before, after in pairs) and all(before in (1, after) for before, after in pairs)


def _factors(node: Node, mode: str) -> tuple[int, int] | None:
    """The whole factors of scaling in a mode, None for other interpolations."""
    factors = whole_factors(node) if node.op.mode == mode else None
    if factors is None or mode == "nearest":
        return factors
    return factors if 1 < max(factors) <= (MAX_WINDOW_STEP + 1) // 2 else None


@dataclass(frozen=True)
class _Shares:
    """How a value is spread along a dimension: whole numbers over `unit`, the border's `repeats` before and after, and
    the `crop` of the spread result on each side.
    """

    weights: Array
    unit: int
    repeats: tuple[int, int]
    crop: tuple[int, int]

    @staticmethod
    def of(factor: int, *, centered: bool) -> _Shares:
        """Shares of one value; `centered`: of half-pixel coordinates, else the first results are the values."""
        if factor == 1:
            return _Shares(np.ones(1, np.int64), 1, (0, 0), (0, 0))
        if centered and factor % 2 == 0:
            rising = np.arange(1, 2 * factor, 2)
            weights, unit = np.concatenate([rising, rising[::-1]]), 2 * factor
        else:
            weights = np.concatenate([np.arange(1, factor + 1), np.arange(factor - 1, 0, -1)])
            unit = factor
        first = 3 * factor // 2 if centered and factor % 2 == 0 else factor + factor // 2 if centered else factor - 1
        # The spread border and the filter's overhang: (extent + repeats - 1) * factor + len(weights) - extent * factor.
        repeats = (1, 1) if centered else (0, 1)
        extra = (sum(repeats) - 1) * factor + len(weights)
        return _Shares(weights, unit, repeats, (first, extra - first))


def _shares(node: Node, factors: tuple[int, int]) -> tuple[_Shares, _Shares]:
    centered = node.op.coord_mode != "asymmetric"
    return _Shares.of(factors[0], centered=centered), _Shares.of(factors[1], centered=centered)


def _in_bytes(node: Node) -> tuple[_Shares, _Shares] | None:
    """The shares, where bytes are spread exactly by bytes; None otherwise."""
    factors = _factors(node, "linear")
    if node.mode != "int8" or is_stated(node) or factors is None:
        return None
    rows, columns = _shares(node, factors)
    return (rows, columns) if rows.weights.size * columns.weights.size <= _MOST_TAPS else None


def _bytes_spread(node: Node, build: LoweringBuilder, value: Value, factors: tuple[int, int]) -> Value:
    rows, columns = _shares(node, factors)
    channels, result = node.result_type.dims[1], node.quantized_result_type()
    value = _with_border(build, value, (rows, columns), f"{node.name}_border")
    operands = [
        value,
        build.weight("shares_i8", _filters(rows, columns, channels).astype(np.int8), "si8"),
        build.none(),
    ]
    scale = value.tensor.uniform.scale / (rows.unit * columns.unit)
    op = _deconv((rows, columns), factors, channels)
    if node.float_sums:
        return scaled_sums(node, build, op, operands, np.full(channels, scale), axis=1)
    multiplier, shift = decompose_frexp31(scale / result.uniform.scale)
    return build(
        dataclasses.replace(op, multiplier=(multiplier,) * channels, rshift=(shift,) * channels), operands, result
    )


def _spread(node: Node, build: LoweringBuilder, value: Value, factors: tuple[int, int]) -> Value:
    """Spread floats: in one pass, or along columns and then along rows."""
    rows, columns = _shares(node, factors)
    if min(factors) == 1 or rows.weights.size * columns.weights.size <= _MOST_TAPS:
        return _pass(node, build, value, (rows, columns), factors, node.name)
    whole = _Shares.of(1, centered=True)
    value = _pass(node, build, value, (whole, columns), (1, factors[1]), f"{node.name}_columns")
    return _pass(node, build, value, (rows, whole), (factors[0], 1), node.name)


def _pass(
    node: Node,
    build: LoweringBuilder,
    value: Value,
    shares: tuple[_Shares, _Shares],
    factors: tuple[int, int],
    name: str,
) -> Value:
    value = _with_border(build, value, shares, f"{name}_border")
    n, channels = value.tensor.dims[:2]
    filters = _filters(*shares, channels) / (shares[0].unit * shares[1].unit)
    suffix = f"shares{factors[0]}by{factors[1]}"
    element = "f32" if channels > 1 else value.tensor.storage.name  # the chip computes depthwise in f32
    operands = [value, float_weight(build, suffix, filters, element), build.none()]
    h, w = (node.operand_types[0].dims[2:]) if name != node.name else node.result_type.dims[2:]
    if name != node.name:
        w = node.result_type.dims[3]
    result = value.tensor.with_shape((n, channels, h, w)).at(None)
    return build(_deconv(shares, factors, channels), operands, result, name)


def _with_border(build: LoweringBuilder, value: Value, shares: tuple[_Shares, _Shares], name: str) -> Value:
    (above, below), (left, right) = (one.repeats for one in shares)
    n, c, h, w = value.tensor.dims
    dims = (n, c, h + above + below, w + left + right)
    op = tpu.Pad(paddings=(0, 0, above, left, 0, 0, below, right), mode="edge")
    return build(op, [value], value.tensor.with_shape(dims).at(None), name)


def _filters(rows: _Shares, columns: _Shares, channels: int) -> Array:
    """The same filter for every channel: `[1, channels, kh, kw]`."""
    return np.tile(np.outer(rows.weights, columns.weights)[None, None], (1, channels, 1, 1))


def _deconv(shares: tuple[_Shares, _Shares], factors: tuple[int, int], channels: int) -> tpu.Deconv:
    (above, below), (left, right) = (one.crop for one in shares)
    return tpu.Deconv(
        kernel_shape=(shares[0].weights.size, shares[1].weights.size),
        strides=factors,
        pads=(above, left, below, right),
        group=channels,
        with_bias=False,
    )


def _by_matrices(node: Node, build: LoweringBuilder, value: Value) -> Value:
    """Multiply small images by one matrix; every larger one by a matrix along columns, then by another along rows:
    `rows @ (image @ columns)`.
    """
    n, c, h, w = value.tensor.dims
    rows, columns = node.result_type.dims[2:]
    along_columns = interpolation_matrix(node.op, w, columns, node.op.scale_w)
    if rows == h:  # the rows of all images are those of one matrix
        return _product(build, [value, _matrix(build, along_columns, value)], node.result_type.dims, node.name)
    along_rows = interpolation_matrix(node.op, h, rows, node.op.scale_h).T
    if h * w * rows * columns <= _SMALL:
        whole = np.einsum("jh,wi->hwji", along_rows, along_columns).reshape(h * w, rows * columns)
        value = _reshaped(build, value, (n, c, h * w), f"{node.name}_images")
        matrix = _matrix(build, whole, value)
        value = _product(build, [value, matrix], (n, c, rows * columns), f"{node.name}_resized")
        return _reshaped(build, value, node.result_type.dims, node.name)
    if columns != w:
        matrix = _matrix(build, along_columns[None, None], value)
        value = _product(build, [value, matrix], (n, c, h, columns), f"{node.name}_columns")
    matrix = _matrix(build, along_rows[None, None], value)
    return _product(build, [matrix, value], node.result_type.dims, node.name)


def _reshaped(build: LoweringBuilder, value: Value, dims: tuple[int, ...], name: str) -> Value:
    return build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), name)


def _matrix(build: LoweringBuilder, matrix: Array, value: Value) -> Value:
    """One matrix for all images of a value, in the value's type."""
    suffix = f"matrix{matrix.shape[-2]}by{matrix.shape[-1]}"
    return float_weight(build, suffix, matrix, value.tensor.storage.name)


def _product(build: LoweringBuilder, operands: list[Value], dims: tuple[int, ...], name: str) -> Value:
    result = next(value for value in operands if not value.is_constant).tensor.with_shape(dims)
    return build(tpu.MatMul(), [*operands, *[build.none()] * 3], result.at(None), name)
