"""Compute one-channel planes across all lanes, and gather them in one lane."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from tpuc.api import (
    Axis,
    Box,
    Candidate,
    Layouts,
    LocalBlock,
    LocalTensor,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    View,
)
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.strips import Strips, joining, strips_of
from tpuc_cv18.operands import MAX_EXTENT

_STRIPS = "strips"


def plane_candidates(kernel: LaneKernel[Any], node: Node, operands: int = 1) -> Sequence[Candidate]:
    """Candidates for an elementwise kernel on one-channel planes, its first `operands` operands: compute in all lanes,
    and collect the result in one. Empty for other tensors.
    """
    dims = node.result_type.dims
    if len(dims) != 4 or dims[:2] != (1, 1) or any(type_.dims != dims for type_ in node.operand_types[:operands]):
        return ()
    if strips_of(*dims[2:], _item_bytes(node), kernel.target) is None:
        return ()
    strips = StripsKernel(kernel, operands)
    return (Candidate(strips, strips.space(node)),)


class StripsKernel(LaneKernel[Any]):
    """Loads strips of a plane across the lanes, where an inner kernel computes each lane's part of every strip. Copies
    within local memory then collect the rows of a tile in one lane.
    """

    def __init__(self, kernel: LaneKernel[Any], operands: int) -> None:
        super().__init__(kernel.target)
        self._kernel, self._operands = kernel, operands

    def space(self, node: Node) -> Space:
        _, _, h, w = node.result_type.dims
        axes = (Axis("n", 1), Axis("c", 1), Axis("h", h, limit=MAX_EXTENT), Axis("w", w, granularity=w))
        return Space(axes, self._inner(node).operands, (View((1, 1, h, w)),))

    def tiling_key(self, node: Node) -> Hashable:
        return type(self._kernel), self._kernel.tiling_key(node)

    def layouts(self, node: Node) -> Layouts:
        inner = self._kernel.layouts(node)
        return Layouts(inner.operands, inner.results, inner.strided)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return self._kernel.reads(node, self._inner(node), self._tile(node, tile))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return self._kernel.constants(node)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return self._kernel.constant_shape(node, name, self._tile(node, tile))

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return self._kernel.pack(node, name, self._tile(node, tile), arrays)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        """Buffers that the inner kernel needs above its results are placed after the strips."""
        inner = self._kernel.scratch(node, self._tile(node, tile))
        above = sum(item.bytes_per_lane for item in inner if item.above_results)
        strips = Scratch(_STRIPS, self._strips_bytes(node, tile) + above)
        return (strips, *(item for item in inner if not item.above_results))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        strips, tile, result = self._strips(node), self._tile(node, placed.tile), placed.result
        block = placed.scratch[_STRIPS]
        scratch, at = dict(placed.scratch), block.address + self._strips_bytes(node, placed.tile)
        for item in self._kernel.scratch(node, tile):
            if item.above_results:
                scratch[item.name] = LocalBlock(at, item.bytes_per_lane, block.lanes)
                at += item.bytes_per_lane
        parts = LocalTensor(block.address, strips.shape(tile.size("n")), result.layout, result.element)
        self._kernel.emit(node, PlacedTile(tile, placed.operands, (parts,), placed.constants, scratch), phase, asm)
        before, (first, end) = tile.range("n")[0] * strips.rows, placed.tile.range("h")
        for copy in joining(parts, strips, (first - before, end - before), result.address, self.target):
            asm.record(copy)

    def _strips(self, node: Node) -> Strips:
        strips = strips_of(*node.result_type.dims[2:], _item_bytes(node), self.target)
        assert strips is not None
        return strips

    def _strips_bytes(self, node: Node, tile: Tile) -> int:
        return self.planes_bytes(self._strips(node).shape(self._tile(node, tile).size("n")), _item_bytes(node))

    def _inner(self, node: Node) -> Space:
        """The tile space of the inner kernel."""
        view, others = self._strips(node).view, self._kernel.space(node).operands[self._operands :]
        return Space(self.lanes.parallel_axes(view.shape), ((view,) * self._operands + others), (view,))

    def _tile(self, node: Node, tile: Tile) -> Tile:
        """The tile as seen by the inner kernel."""
        strips = self._strips(node)
        first, end = strips.around(tile.range("h"))
        return Tile(("n", "c", "h", "w"), (first, 0, 0, 0), strips.shape(end))


def _item_bytes(node: Node) -> int:
    return node.result_type.storage.bits // 8
