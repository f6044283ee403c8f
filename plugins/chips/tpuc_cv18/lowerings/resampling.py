"""Images at other sizes: repetition, transposed convolution with a triangle, or products with matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_chip_parts.lowering import images_refusal, interpolation_matrix, whole_factors
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.common import Array, as_bf16
from tpuc_cv18.lowerings.qdm import quantise_qdm
from tpuc_cv18.lowerings.table import TABLE

Pair = tuple[int, int]

_MOST_REPEATS = 64
_LARGEST_FACTOR = 8
"""Of transposed convolutions: their windows have twice as many places, of which commands know 16."""


@TABLE.lowers(top.Interp, "bf16", "int8")
class InterpAny(Lowering[top.Interp]):
    """Nearest places of a whole factor are repeated as stored. Linear ones of a whole factor are a depthwise transposed
    convolution with a triangle, between borders that repeat. Everything else: a product with a matrix per dimension.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        return images_refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value, dims = node.operands[0], node.result_type.dims
        factors = _repeats(node)
        if factors is not None:
            lowered = tpu.Upsample(scale_h=factors[0], scale_w=factors[1])
            return [build(lowered, [value], value.tensor.with_shape(dims).at(None))]
        return _Resampling(node, build).value()


def _repeats(node: LoweringNode) -> Pair | None:
    """Factors by which nearest neighbours repeat."""
    factors = whole_factors(node) if node.op.mode == "nearest" else None
    return factors if factors is not None and math.prod(factors) <= _MOST_REPEATS else None


class _Resampling:
    """The steps of one node. Every value in between has the operand's type, which holds all averages of its values."""

    def __init__(self, node: LoweringNode, build: LoweringBuilder) -> None:
        self.node, self.build = node, build
        self.source = node.operands[0]
        self.type = node.quantised_result_type() if node.mode == "int8" else node.float_result_type()

    def value(self) -> list[Value]:
        """The result."""
        factors = whole_factors(self.node) if self.node.op.mode == "linear" else None
        (_, _, h, w), (_, _, rows, columns) = self.source.tensor.dims, self.type.dims
        if factors is not None and 1 < max(factors) <= _LARGEST_FACTOR:
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
        """Every image is a 1x1 convolution whose channels are the rows."""
        n, c, h, w = value.tensor.dims
        images = self._reshaped(value, (n * c, h, 1, w), f"{self.node.name}_images")
        matrix = interpolation_matrix(self.node.op, h, rows, self.node.op.scale_h).T.reshape(rows, h, 1, 1)
        type_ = self.type.with_shape((n * c, rows, 1, w)).at(None)
        filters, fields = self._filters("rows", matrix, images, type_)
        lowered = tpu.Conv2D(kernel_shape=(1, 1), with_bias=False, **fields)
        result = self.build(lowered, [images, filters, self.build.none()], type_, f"{self.node.name}_rows")
        return self.build(tpu.Reshape(shape=self.type.dims), [result], self.type, self.node.name)

    def _spread(self, factors: Pair) -> Value:
        """Borders repeated as far as places lie outside, then triangles of twice the factor around every place."""
        n, c, h, w = self.source.tensor.dims
        is_centred = self.node.op.coord_mode != "asymmetric"
        before = [int(factor > 1 and is_centred) for factor in factors]
        after = [int(factor > 1) for factor in factors]
        dims = (n, c, h + before[0] + after[0], w + before[1] + after[1])
        pad = tpu.Pad(paddings=(0, 0, *before, 0, 0, *after), mode="edge")
        value = self.build(pad, [self.source], self.source.tensor.with_shape(dims).at(None), f"{self.node.name}_edged")
        (down, above, below), (right, left, beside) = (_triangle(one, is_centred=is_centred) for one in factors)
        kernel = (len(down), len(right))
        filters = np.broadcast_to(np.outer(down, right).astype(np.float32), (c, 1, *kernel))
        weights, fields = self._filters("triangles", filters, value, self.type, transposed=True)
        lowered = tpu.Deconv(
            kernel_shape=kernel, strides=factors, pads=(above, left, below, beside), group=c, with_bias=False, **fields
        )
        return self.build(lowered, [value, weights, self.build.none()], self.type)

    def _filters(
        self, suffix: str, filters: Array, source: Value, result: TensorType, *, transposed: bool = False
    ) -> tuple[Value, dict[str, Any]]:
        """Constant filters, output channels first, and the op's attributes for them. `transposed`: stored with the
        first two dimensions exchanged.
        """
        fields: dict[str, Any] = {}
        element = "bf16"
        if result.is_quantised:
            product = quantise_qdm(filters, None, source.tensor.uniform, result.uniform)
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

    def _reshaped(self, value: Value, dims: tuple[int, ...], name: str) -> Value:
        return self.build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None), name)


def _plural(fields: dict[str, Any]) -> dict[str, Any]:
    """As the matrix product calls them."""
    names = {"multiplier": "multipliers", "rshift": "rshifts"}
    return {names.get(name, name): value for name, value in fields.items()}


def _triangle(factor: int, *, is_centred: bool) -> tuple[Array, int, int]:
    """Shares of a place in the results around it, and how many results are cut off before and behind.

    Result o lies at ``(o + 1/2) / factor - 1/2`` of the operand, or at ``o / factor``; a place's share falls with the
    distance and is nothing at the next place.
    """
    if factor == 1:
        return np.ones(1), 0, 0
    # In results, how far the first place lies from result 0: one border place is there in front of centred ones.
    first = -(factor + 1) / 2 if is_centred else 0.0
    cut = math.floor(factor - 1e-9 - first)
    places = np.arange(2 * factor + 1) - cut - first
    shares = 1 - np.abs(places) / factor
    shares = shares[: int(np.flatnonzero(shares > 0)[-1]) + 1]
    behind = len(shares) - cut + (factor if is_centred else 0)
    return shares, cut, behind
