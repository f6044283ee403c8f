"""Table lookup with 256 bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from tpuc.api import (
    Candidate,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    ScalarType,
    Shape4,
    Space,
    Tile,
)
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import DType, Lookup, Operand, Target, natural_strides
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, elementwise_space, flat_space
from tpuc_cv18.kernels.planes import plane_candidates

ENTRIES = 256


class LutKernel(LaneKernel[tpu.Lut]):
    """Every lane holds the whole table, or the tables of its channels. The stored byte, as unsigned, is the index."""

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].storage.bits != 8:
            return f"entries of 8 bits, these have {node.operand_types[1].storage.bits}"
        return element_refusal(_without_constant(node), points=True)

    def space(self, node: Node) -> Space:
        alone = _without_constant(node)
        space_of = elementwise_space if by_channel(node) else flat_space
        space = space_of(self.lanes, alone)
        return Space(space.axes, (*space.operands, None), space.results)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        planes = () if by_channel(node) else plane_candidates(self, node)
        return (*super().kernels(node), *planes)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("table", ("c",)) if by_channel(node) else PackedConstant("table", broadcast=True),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if not by_channel(node):
            return 1, ENTRIES
        channels = tile.size("c")
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * ENTRIES

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        table = arrays[1]
        assert table is not None
        rows = np.ascontiguousarray(table).reshape(-1, ENTRIES).view(np.uint8)
        return self.lanes.by_lane(rows[slice(*tile.range("c"))]) if by_channel(node) else rows

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        table = placed.constants["table"].address
        if not by_channel(node):
            self.look_up(placed, table, asm)
            return
        x, result = placed.operand(0), placed.result
        for shape, offset, group in _table_parts(result.shape, self.target):
            asm.record(
                Lookup(
                    shape=shape,
                    result=Operand(result.address + offset, DType.UINT8),
                    input=Operand(x.address + offset, DType.UINT8),
                    table=table + group * ENTRIES,
                )
            )

    def look_up(self, placed: PlacedTile, table: int, asm: Cv18Assembler) -> None:
        """Look up all channels in one table."""
        x, result = Operand(placed.operand(0).address, DType.UINT8), Operand(placed.result.address, DType.UINT8)
        asm.record(Lookup(shape=placed.result.shape, result=result, input=x, table=table))


def by_channel(node: Node) -> bool:
    """True when each channel has its own table."""
    return node.operand_types[1].size != ENTRIES


def _table_parts(shape: Shape4, target: Target) -> Iterator[tuple[Shape4, int, int]]:
    """Parts of a tile with one channel per lane: shape, offset in bytes, and index of the channel group."""
    n, c, h, w = shape
    image, plane, _, _ = natural_strides(target, shape, 1)
    if c <= target.lanes:
        yield shape, 0, 0
        return
    for group in range(target.groups_of(c)):
        channels = min(target.lanes, c - group * target.lanes)
        for index in range(n):
            yield (1, channels, h, w), index * image + group * plane, group


def _without_constant(node: Node) -> Node:
    """The node with its index as plain bytes: the table defines the result, whatever the bytes represent."""
    index = node.operand_types[0]
    plain = index.with_element(ScalarType(index.storage.name))
    return Node(node.op, (plain,), node.result_types, node.name)
