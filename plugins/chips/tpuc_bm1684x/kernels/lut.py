"""Table lookup with 256 entries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from tpuc.api import (
    Candidate,
    LocalTensor,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Shape4,
    Tile,
    TileKernel,
)
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import DType, Gather, Layout, Operand
from tpuc_bm1684x.isa.geometry import EU_BYTES
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.kernels.common import OfChip, elementwise_space, elementwise_spaces, in_spaces
from tpuc_bm1684x.kernels.planes import plane_candidates
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand

_ENTRIES = 256
_LONGEST = MAX_EXTENT // EU_BYTES * EU_BYTES  # part of a plane in one command: parts start at vectors


class LutKernel(OfChip, TileKernel[tpu.Lut, Bm1684xAssembler]):
    """Every lane holds the whole table, or the tables of its channels. The stored byte, as unsigned, is the index."""

    def refuse(self, node: Node) -> str | None:
        size = node.operand_types[1].storage.bits
        if size > 32:
            return f"entries of at most 32 bits, these have {size}"
        return None

    def kernels(self, node: Node) -> Sequence[Candidate]:
        alone = Node(node.op, node.operand_types[:1], node.result_types, node.name)
        chip = self.target
        spaces = (elementwise_space(alone, chip),) if _by_channel(node) else elementwise_spaces(alone, chip)
        planes = () if _by_channel(node) else plane_candidates(self, node, chip)
        whole = in_spaces(self, (replace(space, operands=(*space.operands, None)) for space in spaces))
        return (*planes, *whole)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("table", ("c",)) if _by_channel(node) else PackedConstant("table", broadcast=True),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        size = _ENTRIES * node.operand_types[1].storage.bits // 8
        channels = tile.size("c")
        if not _by_channel(node):
            return 1, size
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * size

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        table = arrays[1]
        assert table is not None
        if _by_channel(node):
            c0, c1 = tile.range("c")
            return self.lanes.by_lane(np.ascontiguousarray(table).reshape(-1, _ENTRIES)[c0:c1])
        return np.ascontiguousarray(table).reshape(1, -1).view(np.uint8)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        layout = Layout.ALIGNED if _by_channel(node) else Layout.TABLE
        table = Operand(placed.constants["table"].address, dtype_of(placed.result.element), layout)
        for x, result, shape, slot in _parts(placed.operand(0), placed.result, self.target):
            if _by_channel(node):
                rows = placed.constants["table"].address + slot * _ENTRIES * table.dtype.bytes
                table = Operand(rows, table.dtype, layout)
            asm.record(
                Gather(
                    shape=shape,
                    result=Operand(result, table.dtype),
                    table=table,
                    table_size=(1, _ENTRIES),
                    index=Operand(x, DType.UINT8),
                    index_size=(shape[1], shape[3]),
                )
            )


def _by_channel(node: Node) -> bool:
    return node.operand_types[1].size != _ENTRIES


def _parts(x: LocalTensor, result: LocalTensor, chip: Target) -> Iterator[tuple[int, int, Shape4, int]]:
    """Addresses of index and result, extents, and slot of the first channel: the whole tile, or pieces of its planes
    that fit the index field.
    """
    n, c, h, w = x.shape
    if h * w <= MAX_EXTENT:
        yield x.address, result.address, (n, c, 1, h * w), 0  # the gather takes planes as single rows
        return
    source, target = operand(x), operand(result)
    for batch in range(n):
        for slot in range(math.ceil(c / chip.lanes)):
            starts = [
                local.address + (batch * strides[0] + slot * strides[1]) * local.dtype.bytes
                for local, strides in ((source, source.strides(x.shape, chip)), (target, target.strides(x.shape, chip)))
            ]
            lanes = min(chip.lanes, c - slot * chip.lanes)
            for first in range(0, h * w, _LONGEST):
                length = min(_LONGEST, h * w - first)
                yield starts[0] + first, starts[1] + first * target.dtype.bytes, (1, lanes, 1, length), slot
