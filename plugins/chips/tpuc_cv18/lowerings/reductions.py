"""Reductions, which are pooling over whole planes: dimensions that go become rows or columns."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_chip_parts.lowering import InnerBuilder
from tpuc_ops import top, tpu
from tpuc_ops.shapes import positive_axis

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.pools import AvgPoolBf16, AvgPoolInt8, MaxPoolAny
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.operands import MAX_EXTENT

_POOLS = {"ReduceMean": top.AvgPool, "ReduceMax": top.MaxPool}
_MODES = (*_POOLS, "ReduceSum", "ReduceMin", "ReduceL1", "ReduceL2")


def _axes(node: LoweringNode) -> list[int]:
    dims = node.operand_types[0].dims
    return sorted({positive_axis(axis, len(dims)) for axis in node.op.axes})


def _order(node: LoweringNode) -> list[int]:
    """Dimensions with those that go as neighbours: where they are, or behind the others."""
    dims, gone = node.operand_types[0].dims, _axes(node)
    between = [axis for axis in range(gone[0], gone[-1] + 1) if axis not in gone and dims[axis] > 1]
    every = list(range(len(dims)))
    return every if not between else [axis for axis in every if axis not in gone] + gone


def _block(node: LoweringNode) -> tuple[int, int, int]:
    """How many elements lie before, in and behind what goes."""
    dims, gone, order = node.operand_types[0].dims, _axes(node), _order(node)
    places = [order.index(axis) for axis in gone]
    ordered = [dims[axis] for axis in order]
    first, last = min(places), max(places)
    return math.prod(ordered[:first]), math.prod(ordered[first : last + 1]), math.prod(ordered[last + 1 :])


def _images(node: LoweringNode) -> tuple[tuple[int, ...], tuple[int, int]]:
    """The operand as images with one window over each plane's rows, or rows and columns, and that window."""
    dims, gone = node.operand_types[0].dims, _axes(node)
    if len(dims) == 4 and set(gone) <= {2, 3}:
        _, _, h, w = dims
        return dims, (h if 2 in gone else 1, w if 3 in gone else 1)
    before, count, behind = _block(node)
    if behind > 1:
        return (1, before, count, behind), (count, 1)
    width = max(width for width in range(1, min(count, MAX_EXTENT) + 1) if count % width == 0)
    return (1, before, count // width, width), (count // width, width)


def _as_pool(node: LoweringNode) -> LoweringNode:
    """A mean or maximum as the pool over images that it is."""
    dims, kernel = _images(node)
    pooled = (*dims[:2], dims[2] // kernel[0], dims[3] // kernel[1])
    return dataclasses.replace(
        node,
        op=_POOLS[node.op.mode](kernel_shape=kernel, strides=(1, 1), pads=(0, 0, 0, 0)),
        operand_types=(node.operand_types[0].with_shape(dims), *node.operand_types[1:]),
        result_types=(node.result_type.with_shape(pooled),),
    )


@TABLE.lowers(top.Reduce, "bf16", "int8")
class ReduceAny(Lowering[top.Reduce]):
    """Integers have means and maxima; sums, minima and lengths are bf16 in every mode."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        if node.op.mode == "ReduceMean" and node.mode == "int8":
            return AvgPoolInt8().requires(_as_pool(node))
        return (Wants.MODE if node.op.mode in _POOLS else Wants.AS_IS,) * len(node.operand_types)

    def refuse(self, node: LoweringNode) -> str | None:
        if node.op.mode not in _MODES:
            return f"mode {node.op.mode} has no kernel; there are {', '.join(_MODES)}"
        window = max(_images(node)[1])
        if window > MAX_EXTENT:
            return f"at most {MAX_EXTENT} values in a row, or a product of two such numbers, here {window}"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        if node.op.mode not in _POOLS:
            return self._in_bf16(Bf16Composer(node, build), node)
        inner = _as_pool(node)
        dims, pooled = inner.operand_types[0].dims, inner.result_type.dims
        source, order = node.operands[0], _order(node)
        if order != sorted(order):
            transposed = source.tensor.with_shape(tuple(source.tensor.dims[axis] for axis in order)).at(None)
            source = build(tpu.Permute(order=tuple(order)), [source], transposed, f"{node.name}_turned")
        if source.tensor.dims != dims:
            type_ = source.tensor.with_shape(dims).at(None)
            source = build(tpu.Reshape(shape=dims), [source], type_, f"{node.name}_planes")
        cell: Lowering[Any] = MaxPoolAny()
        if node.op.mode == "ReduceMean":
            cell = AvgPoolInt8() if node.mode == "int8" else AvgPoolBf16()
        plain = pooled == node.result_type.dims
        name = node.name if plain else f"{node.name}_pooled"
        inner = dataclasses.replace(inner, name=name, operands=(source, *node.operands[1:]))
        if plain:
            return cell.lower(inner, build)
        (value,) = cell.lower(inner, InnerBuilder(build, inner.name))
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
