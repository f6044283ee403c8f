"""Ops that cut and repeat tensors, made of slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import ShapeLowering, SplitAny
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.table import TABLE

TABLE.lowers(top.Split, "bf16", "int8")(SplitAny)


@TABLE.lowers(top.Tile, "bf16", "int8")
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
            value = build(tpu.Concat(axis=axis), [value] * count, value.tensor.with_shape(tuple(dims)).at(None), name)
        return [value]
