"""Resize images by repetition, transposed convolution with a triangle filter, or products with interpolation
matrices.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, TensorType, Uniform, Value
from tpuc_chip_parts.lowering import InnerBuilder, images_refusal, interpolation_matrix, is_stated, whole_factors
from tpuc_ops import top, tpu
from tpuc_ops.integers import without_point, zero_point

from tpuc_cv18.lowerings.common import Array, as_bf16
from tpuc_cv18.lowerings.qdm import QdmProduct, quantize_qdm, stored_qdm
from tpuc_cv18.lowerings.shares import parts_of, reaches, triangle
from tpuc_cv18.lowerings.stated_resizing import in_steps
from tpuc_cv18.lowerings.table import TABLE

Pair = tuple[int, int]

_MOST_REPEATS = 64
_FINE = 1.2
"""Ratio of operand step to result step above which the half step lost between the dimensions matters. Not varied."""
_LARGEST_FACTOR = 8
"""Largest factor of a transposed convolution: its windows have twice as many taps, and commands support 16."""


@TABLE.lowers(top.Interp, "bf16", "int8")
class InterpAny(Lowering[top.Interp]):
    """Repeats stored values for nearest-neighbor scaling by whole factors. Linear scaling by whole factors is a
    depthwise transposed convolution with a triangle filter and edge padding. Everything else is a product with a
    matrix per dimension, in bf16 where bytes are prequantized or the result's steps are finer than the operand's.

    The weights sum to 1, so bytes with a zero point are interpolated as if it were 0, and the result keeps it.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_stated(node) and images_refusal(node) is None

    def refuse(self, node: LoweringNode) -> str | None:
        return images_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value, dims = node.operands[0], node.result_type.dims
        factors = _repeats(node)
        if factors is not None:
            lowered = tpu.Upsample(scale_h=factors[0], scale_w=factors[1])
            return [build(lowered, [value], value.tensor.with_shape(dims).at(None))]
        if node.mode == "int8" and (_is_prequantized(node) or zero_point(value.tensor) or _is_finer(node)):
            return [_stated(node, build)]
        return _Resampling(node, build).value()


def _is_prequantized(node: LoweringNode) -> bool:
    """True when the operand or the result is prequantized."""
    return is_stated(node) or isinstance(node.operand_types[0].element, Uniform)


def _is_finer(node: LoweringNode) -> bool:
    """True when the result's steps are so much finer that rounding averages to the operand's steps would be visible."""
    element = node.operands[0].tensor.element
    return isinstance(element, Uniform) and element.scale > _FINE * node.quantized_result_type().uniform.scale


def _stated(node: LoweringNode[top.Interp], build: LoweringBuilder) -> Value:
    """Lower a prequantized resize: nearest neighbors in the operand's type; triangles in the result's type where bytes
    have room for them, with both zero points in the bias.
    """
    (value,) = node.operands
    source, wanted = value.tensor, node.quantized_result_type()
    moves = node.op.mode == "nearest" and source.is_quantized
    if not (moves or _is_triangular(node, source, wanted)):
        return in_steps(node, build)
    plain = without_point(source).at(None)
    name = f"{node.name}_shares"
    moved = build(tpu.Reshape(shape=plain.dims), [value], plain, f"{node.name}_bytes")
    result = without_point(source if moves else wanted).with_shape(node.result_type.dims).at(None)
    inner = dataclasses.replace(node, operands=(moved,), operand_types=(plain,), result_types=(result,), name=name)
    points = (0, 0) if moves else (zero_point(source), zero_point(wanted))
    (shares,) = _Resampling(inner, InnerBuilder(build, name), points).value()
    stated = source.with_shape(result.dims).at(None) if moves else wanted
    return build(tpu.Reshape(shape=result.dims), [shares], stated)


def _is_triangular(node: LoweringNode[top.Interp], source: TensorType, wanted: TensorType) -> bool:
    if _triangles(node) is None or not isinstance(source.element, Uniform):
        return False
    shares = _triangle_shares(node)
    return parts_of(shares) > 0 and reaches(shares, source.element, wanted.uniform)


def _triangles(node: LoweringNode[top.Interp]) -> Pair | None:
    """Factors of transposed convolutions with triangle filters, None if not applicable."""
    factors = whole_factors(node) if node.op.mode == "linear" else None
    return factors if factors is not None and 1 < max(factors) <= _LARGEST_FACTOR else None


def _triangle_shares(node: LoweringNode[top.Interp]) -> Array:
    down, right = (
        triangle(one, is_centered=node.op.coord_mode != "asymmetric")[0] for one in _triangles(node) or (1, 1)
    )
    return np.outer(down, right)


def _repeats(node: LoweringNode) -> Pair | None:
    """Factors by which nearest neighbors repeat, None if not applicable."""
    factors = whole_factors(node) if node.op.mode == "nearest" else None
    return factors if factors is not None and math.prod(factors) <= _MOST_REPEATS else None


class _Resampling:
    """The inner ops of one node. Intermediate values have the operand's type, which represents all averages of its
    values.

    `points`: zero points of operand and result, which are not part of the types of bytes with triangle filters.
    """

    def __init__(self, node: LoweringNode, build: LoweringBuilder, points: Pair = (0, 0)) -> None:
        self.node, self.build, self.points = node, build, points
        self.source = node.operands[0]
        self.type = node.quantized_result_type() if node.mode == "int8" else node.float_result_type()

    def value(self) -> list[Value]:
        """The result."""
        factors = _triangles(self.node)
        (_, _, h, w), (_, _, rows, columns) = self.source.tensor.dims, self.type.dims
        if factors is not None:
            return [self._spread(factors)]
        value = self.source
        if columns != w:
            value = self._columns(value, columns, is_last=rows == h)
        if rows != h or columns == w:
            value = self._rows(value, rows)
        return [value]

    def _columns(self, value: Value, columns: int, *, is_last: bool) -> Value:
        n, c, h, w = value.tensor.dims
        matrix = interpolation_matrix(self.node.op, w, columns, self.node.op.scale_w)
        type_ = self.type if is_last else value.tensor.with_shape((n, c, h, columns)).at(None)
        filters, fields = self._filters("columns", matrix.T, value, type_, transposed=True)
        lowered = tpu.MatMul(**_plural(fields))
        operands = [value, filters, *(self.build.none() for _ in range(3))]
        return self.build(lowered, operands, type_, self.node.name if is_last else f"{self.node.name}_columns")

    def _rows(self, value: Value, rows: int) -> Value:
        """Interpolate rows: each image is a 1x1 convolution with the rows as channels."""
        n, c, h, w = value.tensor.dims
        images = self._reshaped(value, (n * c, h, 1, w), f"{self.node.name}_images")
        matrix = interpolation_matrix(self.node.op, h, rows, self.node.op.scale_h).T.reshape(rows, h, 1, 1)
        type_ = self.type.with_shape((n * c, rows, 1, w)).at(None)
        filters, fields = self._filters("rows", matrix, images, type_)
        lowered = tpu.Conv2D(kernel_shape=(1, 1), with_bias=False, **fields)
        result = self.build(lowered, [images, filters, self.build.none()], type_, f"{self.node.name}_rows")
        return self.build(tpu.Reshape(shape=self.type.dims), [result], self.type, self.node.name)

    def _spread(self, factors: Pair) -> Value:
        """Pad by repeating the edges as far as positions lie outside, then apply triangles of twice the factor around
        each position.
        """
        n, c, h, w = self.source.tensor.dims
        is_centered = self.node.op.coord_mode != "asymmetric"
        before = [int(factor > 1 and is_centered) for factor in factors]
        after = [int(factor > 1) for factor in factors]
        dims = (n, c, h + before[0] + after[0], w + before[1] + after[1])
        pad = tpu.Pad(paddings=(0, 0, *before, 0, 0, *after), mode="edge")
        value = self.build(pad, [self.source], self.source.tensor.with_shape(dims).at(None), f"{self.node.name}_edged")
        (down, above, below), (right, left, beside) = (triangle(one, is_centered=is_centered) for one in factors)
        kernel = (len(down), len(right))
        filters = np.broadcast_to(np.outer(down, right).astype(np.float32), (c, 1, *kernel))
        weights, fields = self._filters("triangles", filters, value, self.type, transposed=True)
        bias = self._points(filters) if any(self.points) else None
        added = self.build.none() if bias is None else self.build.weight("points_i32", bias.reshape(1, -1, 1, 1))
        pads, with_bias = (above, left, below, beside), bias is not None
        lowered = tpu.Deconv(kernel_shape=kernel, strides=factors, pads=pads, group=c, with_bias=with_bias, **fields)
        return self.build(lowered, [value, weights, added], self.type)

    def _points(self, filters: Array) -> Array | None:
        """The bias that adds the result's zero point and removes the operand's; the weights sum to 1."""
        source, result = self.source.tensor.uniform, dataclasses.replace(self.type.uniform, zero_point=self.points[1])
        return self._product(filters, source, result).bias

    def _filters(
        self, suffix: str, filters: Array, source: Value, result: TensorType, *, transposed: bool = False
    ) -> tuple[Value, dict[str, Any]]:
        """Constant filters, output channels first, and the op's attributes for them. `transposed`: stored with the
        first two dimensions exchanged.
        """
        fields: dict[str, Any] = {}
        element = "bf16"
        if result.is_quantized:
            target = dataclasses.replace(result.uniform, zero_point=self.points[1])
            product = self._product(filters, source.tensor.uniform, target)
            fields = {
                "multiplier": product.multipliers,
                "rshift": product.right_shifts,
                "quant_mode": "QDM",
                "round_mode": "HalfAwayFromZero",
            }
            stored, element = product.filters, "si8"
        else:
            stored = as_bf16(filters)
        stored = np.ascontiguousarray(stored.swapaxes(0, 1) if transposed else stored)
        return self.build.weight(f"shares_{suffix}", stored, element), fields

    def _product(self, filters: Array, source: Uniform, result: Uniform) -> QdmProduct:
        """Quantize the weights; as whole numbers for a prequantized result where possible, because bytes would
        round them.
        """
        parts = parts_of(filters) if is_stated(self.node) else 0
        if not parts or not reaches(filters, source, result):
            return quantize_qdm(filters, None, source, result)
        bias = np.full(filters.shape[0], -self.points[0] * source.scale) if any(self.points) else None
        return stored_qdm(filters * parts, np.array([1 / parts]), bias, source, result)

    def _reshaped(self, value: Value, dims: tuple[int, ...], name: str) -> Value:
        return self.build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), name)


def _plural(fields: dict[str, Any]) -> dict[str, Any]:
    """Rename the attributes for the matrix product."""
    names = {"multiplier": "multipliers", "rshift": "rshifts"}
    return {names.get(name, name): value for name, value in fields.items()}
