"""One op with several kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeAlias

import numpy.typing as npt
from tpuc.api import Box, Layouts, Node, PackedConstant, Phase, PlacedTile, Scratch, Space, Tile, TileKernel

from tpuc_bm1684x.assembler import Bm1684xAssembler

Array: TypeAlias = npt.NDArray[Any]


class AlternativesKernel(TileKernel[Any]):
    """Base: everything but `refuse` is asked of the kernel that fits the node."""

    def kind(self, node: Node) -> TileKernel[Any]:
        """The kernel of this node."""
        raise NotImplementedError

    def space(self, node: Node) -> Space:
        return self.kind(node).space(node)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return self.kind(node).reads(node, space, tile)

    def layouts(self, node: Node) -> Layouts:
        return self.kind(node).layouts(node)

    def tiling_key(self, node: Node) -> Hashable:
        return (type(self.kind(node)), self.kind(node).tiling_key(node))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return self.kind(node).constants(node)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return self.kind(node).constant_shape(node, name, tile)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return self.kind(node).pack(node, name, tile, arrays)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return self.kind(node).scratch(node, tile)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        self.kind(node).emit(node, placed, phase, asm)
