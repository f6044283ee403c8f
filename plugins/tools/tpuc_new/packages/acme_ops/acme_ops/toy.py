"""The cells of the toy chip."""

from __future__ import annotations

from collections.abc import Sequence

from toy_chip import isa
from toy_chip.assembler import ToyAssembler, operand
from toy_chip.kernels import LMEM, elementwise_space, integers_only, tile_shape
from toy_chip.operands import Operand
from tpuc.api import KernelTable, Layouts, LoweringTable, Node, Phase, PlacedTile, Scratch, Space, Tile, TileKernel

from acme_ops.gelu7 import SLOPE_SHIFT, Gelu7
from acme_ops.lowering import Gelu7Any
from acme_ops.stored_gelu7 import StoredGelu7

LOWERINGS = LoweringTable("toy", "acme")
LOWERINGS.lowers(Gelu7, "int8")(Gelu7Any)

KERNELS = KernelTable("toy", "acme")


@KERNELS.runs(StoredGelu7)
class StoredGelu7Kernel(TileKernel[StoredGelu7, ToyAssembler]):
    """Both parts by clamps; the command that adds can shift one of them right first."""

    def refuse(self, node: Node) -> str | None:
        return integers_only(node)

    def space(self, node: Node) -> Space:
        return elementwise_space(node)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return (Scratch("below", LMEM.tensor_bytes("aligned", tile_shape(tile), 1)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        x, result = operand(placed.operand(0)), operand(placed.result)
        below = Operand(placed.scratch["below"].address, result.shape, result.dtype)
        asm.record(isa.Clamp(below, x, int(node.op.low), 0))
        asm.record(isa.Clamp(result, x, 0, int(node.op.high)))
        asm.record(isa.Add(result, result, below, (1, 1), (0, SLOPE_SHIFT)))
