"""Table lookup of bytes in 256 bf16 entries, and the choice of a table kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import KernelChoice, Node, PackedConstant, Phase, PlacedTile, Scratch, Space, Tile, TileKernel
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Lookup, Operand, Target
from tpuc_cv18.kernels.byte_tables import LutKernel
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, flat_space
from tpuc_cv18.kernels.spread_tables import SpreadLutKernel
from tpuc_cv18.operands import operand

_ENTRIES = 256
_HALF_BYTES = 2


class HalfTableKernel(LaneKernel[tpu.Lut]):
    """Looks up words by their low byte, to which the operand's bytes are copied first."""

    def refuse(self, node: Node) -> str | None:
        x, table = node.operand_types[:2]
        if table.size != _ENTRIES:
            return f"one table of {_ENTRIES} bf16 entries for all channels, this one has {table.size}"
        if x.storage.bits != 8 or node.result_type.storage != table.storage:
            return f"bytes by a table of the result's type, these are {x.storage} by {table.storage}"
        return element_refusal(_without_constant(node), points=True)

    def space(self, node: Node) -> Space:
        space = flat_space(self.lanes, _without_constant(node))
        return Space(space.axes, (*space.operands, None), space.results)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("table", broadcast=True),)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return 1, _ENTRIES * _HALF_BYTES

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        table = arrays[1]
        assert table is not None
        return np.ascontiguousarray(table).reshape(1, -1).view(np.uint8)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return (Scratch("words", self.planes_bytes(tile_shape(tile), _HALF_BYTES)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        shape, source = placed.result.shape, Operand(placed.operand(0).address, DType.UINT8)
        words = Operand(placed.scratch["words"].address, DType.BF16)
        low = Operand(words.address, DType.UINT8, words.strides(shape, self.target))
        asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=shape, result=low, left=source))
        table = placed.constants["table"].address
        asm.record(Lookup(shape=shape, result=operand(placed.result), input=words, table=table))


def _without_constant(node: Node) -> Node:
    return Node(node.op, node.operand_types[:1], node.result_types, node.name)


class AnyLutKernel(KernelChoice[tpu.Lut]):
    """Chooses by the width of an entry, and by how a table reaches all lanes."""

    def __init__(self, target: Target) -> None:
        self._bytes, self._spread, self._halves = LutKernel(target), SpreadLutKernel(target), HalfTableKernel(target)

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler]:
        if node.operand_types[1].storage.is_float:
            return self._halves
        return self._spread if self._spread.serves(node) else self._bytes
