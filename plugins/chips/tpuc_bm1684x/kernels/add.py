"""Addition of two tensors."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Layouts, LocalTensor, Node, Phase, PlacedTile, Scratch, Space, Tile, TileKernel
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.tpu.add import Add

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import elementwise_space, too_large
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import operand, strided


class AddKernel(TileKernel[Add]):
    """Integers: each operand times its multiplier, shifted half up into 16 bits; then a saturating sum."""

    def refuse(self, node: Node) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        return too_large(node.operand_types)

    def space(self, node: Node) -> Space:
        return elementwise_space(node)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned", "aligned"), ("aligned",))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not node.result_type.is_quantised:
            return ()
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        size = Bm1684xLmem().tensor_bytes("aligned", shape, 2)
        return (Scratch("left", size), Scratch("right", size))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape = placed.result.shape
        if not node.result_type.is_quantised:
            left, right = (strided(placed.operand(index), shape) for index in (0, 1))
            asm.record(
                Arithmetic(
                    operation=ArithmeticOp.ADD, shape=shape, result=operand(placed.result), left=left, right=right
                )
            )
            emit_relu(node, placed.result, asm)
            return
        op: Add = node.op
        # A saturating sum is unsigned only when both of its operands are; there is no field for the result's sign.
        both_unsigned = min(op.multipliers) >= 0 and all(t.storage.is_unsigned for t in node.operand_types)
        wide = DType.UINT16 if both_unsigned else DType.INT16
        left, right = (Operand(placed.scratch[name].address, wide) for name in ("left", "right"))
        for index, target in enumerate((left, right)):
            self._scale(placed.operand(index), target, op.multipliers[index], op.rshifts[index], placed.result, asm)
        result = operand(placed.result)
        direct = result.dtype.signed != both_unsigned
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.ADD_SATURATE,
                shape=shape,
                result=result if direct else left,
                left=left,
                right=right,
            )
        )
        if not direct:
            asm.record(Arithmetic(operation=ArithmeticOp.CAST, shape=shape, result=result, left=left))
        emit_relu(node, placed.result, asm)

    def _scale(
        self,
        source: LocalTensor,
        target: Operand,
        multiplier: int,
        shift: int,
        result: LocalTensor,
        asm: Bm1684xAssembler,
    ) -> None:
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.MUL_SATURATE,
                shape=result.shape,
                result=target,
                left=strided(source, result.shape),
                right=Scalar.of(multiplier, DType.INT8.with_sign(target.dtype.signed)),
                third=Scalar.of(-shift, DType.INT8),
                rounding=Rounding.HALF_UP,
            )
        )
