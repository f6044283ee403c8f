"""Lower Split and Tile to slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import ShapeLowering, SplitAny
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.table import TABLE

TABLE.lowers(top.Split, "bf16", "int8")(SplitAny)

AT_ONCE = 32
"""Maximum number of direct copies of the tensor; above it, most are copies of copies."""


@TABLE.lowers(top.Tile, "bf16", "int8")
class TileAny(ShapeLowering):
    """Concatenates the tensor with itself, one dimension at a time."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [repeated(node.operands[0], node.op.tile, node.name, build)]


def repeated(value: Value, counts: Sequence[int], name: str, build: LoweringBuilder) -> Value:
    """The tensor beside copies of itself, `counts` of them along each dimension, under this name."""
    axes = [axis for axis, count in enumerate(counts) if count != 1] or [0]
    for axis in axes:
        count = counts[axis]
        own = name if axis == axes[-1] else f"{name}_axis{axis}"
        if count > AT_ONCE:
            whole, rest = divmod(count, isqrt(count))
            several = _beside([value] * isqrt(count), axis, build, f"{own}_part")
            value = _beside([several] * whole + [value] * rest, axis, build, own)
        else:
            value = _beside([value] * count, axis, build, own)
    return value


def _beside(values: Sequence[Value], axis: int, build: LoweringBuilder, name: str) -> Value:
    dims = list(values[0].tensor.dims)
    dims[axis] = sum(value.tensor.dims[axis] for value in values)
    return build(tpu.Concat(axis=axis), values, values[0].tensor.with_shape(tuple(dims)).at(None), name)
