"""Table lookup of bytes with the table broadcast to all lanes by a convolution."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import Axis, Box, Node, PackedConstant, Phase, PlacedTile, Scratch, Space, Tile, View
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Conv, DType, Layout, Operand
from tpuc_cv18.kernels.byte_tables import ENTRIES, LutKernel, by_channel

_FEW_LANES = 8
_LEAST_PART = 1 << 10


class SpreadLutKernel(LutKernel):
    """Loads one table for all channels into the first lane, and broadcasts it to all lanes by a convolution with ones,
    for each tile. A transfer would move it over the memory bus once per lane.
    """

    def serves(self, node: Node) -> bool:
        """True when the convolution is cheaper than the transfers that it saves."""
        return self.lanes.count > _FEW_LANES and not by_channel(node)

    def space(self, node: Node) -> Space:
        space = super().space(node)
        axes = [_in_long_parts(axis) for axis in space.axes] if _is_rows(space.results[0]) else space.axes
        return Space(tuple(axes), (space.operands[0], View((1, 1, 1, ENTRIES))), space.results)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return [super().reads(node, space, tile)[0], Box((0, 0, 0, 0), (1, 1, 1, ENTRIES))]

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("ones"),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return self.lanes.count, 1

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return np.ones((self.lanes.count, 1), np.uint8)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return (Scratch("spread", ENTRIES),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        spread = placed.scratch["spread"].address
        asm.record(
            Conv(
                result=Operand(spread, DType.INT8),
                result_shape=(1, self.lanes.count, 1, ENTRIES),
                input=Operand(placed.operand(1).address, DType.INT8),
                input_shape=(1, 1, ENTRIES),
                weight=Operand(placed.constants["ones"].address, DType.INT8, Layout.COMPACT),
                kernel=(1, 1),
            )
        )
        self.look_up(placed, spread, asm)


def _is_rows(view: View) -> bool:
    """True when each channel is a single row."""
    return 1 in view.shape[2:]


def _in_long_parts(axis: Axis) -> Axis:
    """Tile a row only into parts that take much longer than the convolution with ones."""
    if axis.name not in "hw":
        return axis
    return dataclasses.replace(axis, granularity=min(axis.size, _LEAST_PART))
