"""Tables of 256 bytes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from tpuc.api import Axis, Box, Node, PackedConstant, Phase, PlacedTile, ScalarType, Scratch, Shape4, Space, Tile, View
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Conv, DType, Layout, Lookup, Operand, Target, natural_strides
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, elementwise_space, flat_space

_ENTRIES = 256
_FEW_LANES = 8
_LEAST_PART = 1 << 10


class LutKernel(LaneKernel[tpu.Lut]):
    """Every lane holds the whole table, or those of its channels; the stored byte, taken without sign, is the index."""

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].storage.bits != 8:
            return f"entries of 8 bits, these have {node.operand_types[1].storage.bits}"
        return element_refusal(_without_constant(node), points=True)

    def space(self, node: Node) -> Space:
        alone = _without_constant(node)
        space_of = elementwise_space if _by_channel(node) else flat_space
        space = space_of(self.lanes, alone)
        return Space(space.axes, (*space.operands, None), space.results)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("table", ("c",)) if _by_channel(node) else PackedConstant("table", broadcast=True),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if not _by_channel(node):
            return 1, _ENTRIES
        channels = tile.size("c")
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * _ENTRIES

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        table = arrays[1]
        assert table is not None
        rows = np.ascontiguousarray(table).reshape(-1, _ENTRIES).view(np.uint8)
        return self.lanes.by_lane(rows[slice(*tile.range("c"))]) if _by_channel(node) else rows

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        table = placed.constants["table"].address
        if not _by_channel(node):
            self._look_up(placed, table, asm)
            return
        x, result = placed.operand(0), placed.result
        for shape, offset, group in _table_parts(result.shape, self.target):
            asm.record(
                Lookup(
                    shape=shape,
                    result=Operand(result.address + offset, DType.UINT8),
                    input=Operand(x.address + offset, DType.UINT8),
                    table=table + group * _ENTRIES,
                )
            )

    def _look_up(self, placed: PlacedTile, table: int, asm: Cv18Assembler) -> None:
        """In one table for all channels."""
        x, result = Operand(placed.operand(0).address, DType.UINT8), Operand(placed.result.address, DType.UINT8)
        asm.record(Lookup(shape=placed.result.shape, result=result, input=x, table=table))


class SpreadLutKernel(LutKernel):
    """One table for all channels is loaded into the first lane, and a product with ones writes it into all of them, for
    every tile; memory would transfer it once per lane.
    """

    def serves(self, node: Node) -> bool:
        """Does a product take less than the transfers that it saves?"""
        return self.lanes.count > _FEW_LANES and not _by_channel(node)

    def space(self, node: Node) -> Space:
        space = super().space(node)
        axes = [_in_long_parts(axis) for axis in space.axes] if _is_rows(space.results[0]) else space.axes
        return Space(tuple(axes), (space.operands[0], View((1, 1, 1, _ENTRIES))), space.results)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return [super().reads(node, space, tile)[0], Box((0, 0, 0, 0), (1, 1, 1, _ENTRIES))]

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("ones"),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return self.lanes.count, 1

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return np.ones((self.lanes.count, 1), np.uint8)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return (Scratch("spread", _ENTRIES),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        spread = placed.scratch["spread"].address
        asm.record(
            Conv(
                result=Operand(spread, DType.INT8),
                result_shape=(1, self.lanes.count, 1, _ENTRIES),
                input=Operand(placed.operand(1).address, DType.INT8),
                input_shape=(1, 1, _ENTRIES),
                weight=Operand(placed.constants["ones"].address, DType.INT8, Layout.COMPACT),
                kernel=(1, 1),
            )
        )
        self._look_up(placed, spread, asm)


def _is_rows(view: View) -> bool:
    """Does every channel have one row?"""
    return 1 in view.shape[2:]


def _in_long_parts(axis: Axis) -> Axis:
    """A row is cut where a part takes much longer than the product with ones."""
    if axis.name not in "hw":
        return axis
    return dataclasses.replace(axis, granularity=min(axis.size, _LEAST_PART))


def _by_channel(node: Node) -> bool:
    return node.operand_types[1].size != _ENTRIES


def _table_parts(shape: Shape4, target: Target) -> Iterator[tuple[Shape4, int, int]]:
    """Parts of a tile whose channels lie in lanes of their own: shape, offset in bytes, and index of the channels."""
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
    """With bytes that mean themselves: a table says what they become, whatever they meant."""
    index = node.operand_types[0]
    plain = index.with_element(ScalarType(index.storage.name))
    return Node(node.op, (plain,), node.result_types, node.name)
