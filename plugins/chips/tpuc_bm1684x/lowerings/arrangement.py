"""Lower Split and Tile to slices and concatenations."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import ShapeLowering, SplitAny
from tpuc_ops import top

from tpuc_bm1684x.lowerings.common import ALL
from tpuc_bm1684x.lowerings.repetition import tiled
from tpuc_bm1684x.lowerings.table import TABLE

TABLE.lowers(top.Split, *ALL)(SplitAny)


@TABLE.lowers(top.Tile, *ALL)
class TileAny(ShapeLowering):
    """Concatenates the tensor with itself, one dimension at a time."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value = node.operands[0]
        repeated = [axis for axis, count in enumerate(node.op.tile) if count != 1]
        for axis in repeated or [0]:
            name = node.name if axis == (repeated or [0])[-1] else f"{node.name}_axis{axis}"
            value = tiled(build, value, axis, node.op.tile[axis], name)
        return [value]
