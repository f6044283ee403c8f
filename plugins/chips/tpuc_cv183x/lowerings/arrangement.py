"""Ops that cut and repeat tensors, made of slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.split import Split
from tpuc_ops.top.tile import Tile
from tpuc_ops.tpu.concat import Concat as TpuConcat
from tpuc_ops.tpu.slice import Slice as TpuSlice

from tpuc_cv183x.lowerings.shapes import ShapeLowering
from tpuc_cv183x.lowerings.table import TABLE


@TABLE.lowers(Split, "bf16", "int8")
class SplitAny(ShapeLowering):
    """One slice per result."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        source = node.operands[0]
        dims = source.tensor.dims
        axis = positive_axis(node.op.axis, len(dims))
        values: list[Value] = []
        at = 0
        for result, name in zip(node.result_types, node.result_names, strict=True):
            offset = tuple(at if index == axis else 0 for index in range(len(dims)))
            ends = tuple(start + extent for start, extent in zip(offset, result.dims, strict=True))
            tpu = TpuSlice(offset=offset, steps=(1,) * len(dims), ends=ends)
            values.append(build(tpu, [source], source.tensor.with_shape(result.dims).at(None), name))
            at += result.dims[axis]
        return values


@TABLE.lowers(Tile, "bf16", "int8")
class TileAny(ShapeLowering):
    """The tensor beside itself, dimension by dimension."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value = node.operands[0]
        repeated = [axis for axis, count in enumerate(node.op.tile) if count != 1] or [0]
        for axis in repeated:
            count = node.op.tile[axis]
            dims = list(value.tensor.dims)
            dims[axis] *= count
            name = node.name if axis == repeated[-1] else f"{node.name}_axis{axis}"
            value = build(TpuConcat(axis=axis), [value] * count, value.tensor.with_shape(tuple(dims)).at(None), name)
        return [value]
