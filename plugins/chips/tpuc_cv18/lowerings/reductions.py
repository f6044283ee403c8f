"""Reductions as pooling over whole planes: the reduced dimensions become rows or columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import Calibrated, Lowering, LoweringBuilder, LoweringNode, TensorType, Uniform, Value, Wants
from tpuc_chip_parts.lowering import InnerBuilder, is_stated, strip_count, table_of
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.lowerings.affine import reaches
from tpuc_cv18.lowerings.averages import MOST_TAPS, product_of_ones
from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.pools import WIDEST_BYTES, AvgPoolBf16, AvgPoolInt8, MaxPoolAny
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.operands import MAX_EXTENT

_POOLS = {"ReduceMean": top.AvgPool, "ReduceMax": top.MaxPool}
_ALIKE = {"ReduceMin": top.MaxPool, "ReduceSum": top.AvgPool}
_MODES = (*_POOLS, "ReduceSum", "ReduceMin", "ReduceL1", "ReduceL2")


def _axes(node: LoweringNode) -> list[int]:
    dims = node.operand_types[0].dims
    return sorted({positive_axis(axis, len(dims)) for axis in node.op.axes})


def _order(node: LoweringNode) -> list[int]:
    """Permutation that makes the reduced dimensions contiguous: in place, or after the others."""
    dims, gone = node.operand_types[0].dims, _axes(node)
    between = [axis for axis in range(gone[0], gone[-1] + 1) if axis not in gone and dims[axis] > 1]
    every = list(range(len(dims)))
    return every if not between else [axis for axis in every if axis not in gone] + gone


def _block(node: LoweringNode) -> tuple[int, int, int]:
    """Number of elements before, within and after the reduced dimensions."""
    dims, gone, order = node.operand_types[0].dims, _axes(node), _order(node)
    places = [order.index(axis) for axis in gone]
    ordered = [dims[axis] for axis in order]
    first, last = min(places), max(places)
    return math.prod(ordered[:first]), math.prod(ordered[first : last + 1]), math.prod(ordered[last + 1 :])


def _images(node: LoweringNode) -> tuple[tuple[int, ...], tuple[int, int]]:
    """View of the operand as images, and the pooling window over each plane's rows, or rows and columns."""
    dims, gone = node.operand_types[0].dims, _axes(node)
    if len(dims) == 4 and set(gone) <= {2, 3}:
        _, _, h, w = dims
        return dims, (h if 2 in gone else 1, w if 3 in gone else 1)
    before, count, behind = _block(node)
    if behind > 1:
        return (1, before, count, behind), (count, 1)
    widest = min(count, MAX_EXTENT)
    if is_stated(node):  # both extents fit a product, where possible
        widest = next((width for width in range(min(widest, MOST_TAPS), 0, -1) if _is_small(count, width)), widest)
    width = max(width for width in range(1, widest + 1) if count % width == 0)
    return (1, before, count // width, width), (count // width, width)


def _is_small(count: int, width: int) -> bool:
    return count % width == 0 and count // width <= MOST_TAPS


def _has_integers(node: LoweringNode) -> bool:
    """True for a sum or minimum of prequantized integers that fits the windows and factors of commands."""
    type_ = node.operand_types[0]
    if node.mode != "int8" or not (is_stated(node) or zero_point(type_)):
        return False
    if not isinstance(type_.element, (Calibrated, Uniform)):
        return False
    if node.op.mode == "ReduceMin":
        return strip_count(_as_pool(node), WIDEST_BYTES) == 1
    return node.op.mode == "ReduceSum" and max(_images(node)[1]) <= MOST_TAPS and reaches(node, type_, 1.0)


def _negative(type_: TensorType) -> TensorType:
    """The type that represents the negated values with the same bytes in reverse order."""
    uniform = type_.uniform
    return type_.with_element(dataclasses.replace(uniform, zero_point=sum(uniform.bounds) - uniform.zero_point))


def _negated(value: Value, result: TensorType, name: str, build: LoweringBuilder) -> Value:
    """Negate by a 256-entry table."""
    entries = table_of(top.MulConst(const_val=-1.0), value.tensor, result).reshape(1, 1, 1, 256)
    table = build.weight(f"{name}_table", entries, "ui8" if result.storage.is_unsigned else "si8")
    return build(tpu.Lut(), [value, table], result.at(None), name)


def _as_pool(node: LoweringNode) -> LoweringNode:
    """A reduction as the equivalent pool over images. A minimum is a maximum of negated values, a sum uses filters of
    ones.
    """
    dims, kernel = _images(node)
    pooled = (*dims[:2], dims[2] // kernel[0], dims[3] // kernel[1])
    return dataclasses.replace(
        node,
        op=(_POOLS | _ALIKE)[node.op.mode](kernel_shape=kernel, strides=(1, 1), pads=(0, 0, 0, 0)),
        operand_types=(node.operand_types[0].with_shape(dims), *node.operand_types[1:]),
        result_types=(node.result_type.with_shape(pooled),),
    )


@TABLE.lowers(top.Reduce, "bf16", "int8")
class ReduceAny(Lowering[top.Reduce]):
    """Means and maxima are computed on integers, as are sums and minima of prequantized ones; everything else in bf16,
    in every mode.
    """

    def takes_zero_points(self, node: LoweringNode) -> bool:
        match node.op.mode:
            case "ReduceMean":
                return AvgPoolInt8().takes_zero_points(_as_pool(node))
            case "ReduceMax":
                return is_stated(node) and MaxPoolAny().takes_zero_points(_as_pool(node))
            case _:
                return _has_integers(node)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        if node.op.mode == "ReduceMean" and node.mode == "int8":
            return AvgPoolInt8().requires(_as_pool(node))
        is_stored = node.op.mode in _POOLS or _has_integers(node)
        return (Wants.MODE if is_stored else Wants.AS_IS,) * len(node.operand_types)

    def refuse(self, node: LoweringNode) -> str | None:
        if node.op.mode not in _MODES:
            return f"mode {node.op.mode} has no kernel, only {', '.join(_MODES)}"
        window = max(_images(node)[1])
        if window > MAX_EXTENT:
            return f"at most {MAX_EXTENT} values in a row, or a product of two such numbers, here {window}"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        if node.op.mode not in _POOLS and not _has_integers(node):
            return self._in_bf16(Bf16Composer(node, build), node)
        inner = _as_pool(node)
        dims, pooled = inner.operand_types[0].dims, inner.result_type.dims
        source, order = node.operands[0], _order(node)
        if node.op.mode == "ReduceMin":
            source = _negated(source, _negative(source.tensor), f"{node.name}_negative", build)
        if order != sorted(order):
            transposed = source.tensor.with_shape(tuple(source.tensor.dims[axis] for axis in order)).at(None)
            source = build(tpu.Permute(order=tuple(order)), [source], transposed, f"{node.name}_turned")
        if source.tensor.dims != dims:
            type_ = source.tensor.with_shape(dims).at(None)
            source = build(tpu.Reshape(shape=dims), [source], type_, f"{node.name}_planes")
        cell: Lowering[Any] = MaxPoolAny()
        if node.op.mode == "ReduceMean":
            cell = AvgPoolInt8() if node.mode == "int8" else AvgPoolBf16()
        plain = pooled == node.result_type.dims and node.op.mode != "ReduceMin"
        name = node.name if plain else f"{node.name}_pooled"
        inner = dataclasses.replace(inner, name=name, operands=(source, *node.operands[1:]))
        builder = build if plain else InnerBuilder(build, inner.name)
        if node.op.mode == "ReduceSum":
            value = product_of_ones(inner, builder, 1)
        else:
            (value,) = cell.lower(inner, builder)
        if plain:
            return [value]
        if node.op.mode == "ReduceMin":
            result = node.quantized_result_type()
            if value.tensor.dims == result.dims:
                return [_negated(value, result, node.name, build)]
            value = _negated(value, result.with_shape(value.tensor.dims), f"{node.name}_least", build)
        return [
            build(tpu.Reshape(shape=node.result_type.dims), [value], value.tensor.with_shape(node.result_type.dims))
        ]

    def _in_bf16(self, steps: Bf16Composer, node: LoweringNode) -> Sequence[Value]:
        dims, kernel = _images(node)
        value = steps.reshape(steps.permute(steps.operand(), _order(node)), dims)
        count = kernel[0] * kernel[1]
        match node.op.mode:
            case "ReduceMin":
                value = steps.times(steps.pooled(steps.times(value, -1.0), "Max", kernel), -1.0)
            case "ReduceSum":
                value = steps.times(steps.pooled(value, "Avg", kernel), count)
            case "ReduceL1":
                value = steps.times(steps.pooled(steps.function("ABSVAL", value), "Avg", kernel), count)
            case _:
                squares = steps.pooled(steps.function("SQUARE", value), "Avg", kernel)
                value = steps.function("SQRT", steps.times(squares, count))
        return steps.last(value)
