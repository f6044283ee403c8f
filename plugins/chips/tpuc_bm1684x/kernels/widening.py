"""Sum 16-bit floats in f32: the chip would round each product and each window sum to 16 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import LocalTensor, Node, PlacedTile, Scratch, Shape4

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Operand
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import operand

_NARROW = ("f16", "bf16")


def widening_scratch(
    node: Node, input_shape: Shape4, result_shape: Shape4, lmem: Bm1684xLmem | None = None
) -> Sequence[Scratch]:
    """Scratch buffers for operand and result in f32; empty unless the node's operand is a 16-bit float."""
    if node.operand_types[0].storage.name not in _NARROW:
        return ()
    memory = lmem or Bm1684xLmem()
    sizes = (memory.tensor_bytes("aligned", shape, 4) for shape in (input_shape, result_shape))
    return [Scratch(name, size) for name, size in zip(("wide_input", "wide_result"), sizes, strict=True)]


@dataclass(frozen=True)
class Widened:
    """The operands that a window command reads and writes."""

    input: Operand
    result: Operand

    @classmethod
    def none(cls, placed: PlacedTile) -> Widened:
        """The tile's own operand and result."""
        return cls(operand(placed.operand(0)), operand(placed.result))

    @classmethod
    def of(cls, placed: PlacedTile, asm: Bm1684xAssembler) -> Widened:
        """The f32 buffers of `widening_scratch`, with the operand converted; the tile's own operands where there
        are none.
        """
        plain = cls.none(placed)
        if "wide_input" not in placed.scratch:
            return plain
        wide, result = (Operand(placed.scratch[name].address, DType.F32) for name in ("wide_input", "wide_result"))
        _cast(placed.operand(0), wide, plain.input, asm)
        return cls(wide, result)

    def finish(self, placed: PlacedTile, asm: Bm1684xAssembler) -> None:
        """Round an f32 result to the tile's type."""
        target = operand(placed.result)
        if self.result.dtype is not target.dtype:
            _cast(placed.result, target, self.result, asm)


def _cast(local: LocalTensor, result: Operand, source: Operand, asm: Bm1684xAssembler) -> None:
    asm.record(Arithmetic(operation=ArithmeticOp.CAST, shape=local.shape, result=result, left=source))
