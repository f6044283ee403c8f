"""Truncate floats to the range of narrower integers."""

from __future__ import annotations

from tpuc.api import Node, Phase, PlacedTile
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Scalar
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic
from tpuc_bm1684x.operands import operand

_WORD = 32


class TruncateKernel(ElementwiseKernel):
    """Below 32 bits, converts to int32 and masks the upper bits. For wider types it truncates and clamps in f32, which
    cannot represent more.
    """

    temporaries = (("whole", 4),)

    def refuse(self, node: Node) -> str | None:
        if node.result_type.storage.name != "f32":
            return f"only f32, this one is {node.result_type.storage}"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        (source,) = self.sources(node, placed, asm)
        bits, unsigned = int(node.op.to.lstrip("UINT")), node.op.to.startswith("U")
        if bits >= _WORD:
            arithmetic(asm, ArithmeticOp.CAST, shape, result, source, rounding=Rounding.TOWARDS_ZERO)
            low, high = (0.0, 2.0**bits) if unsigned else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
            arithmetic(asm, ArithmeticOp.MAX, shape, result, result, Scalar.of(low, DType.F32))
            arithmetic(asm, ArithmeticOp.MIN, shape, result, result, Scalar.of(high, DType.F32))
            return
        whole = Operand(placed.scratch["whole"].address, DType.INT32)
        arithmetic(asm, ArithmeticOp.CAST, shape, whole, source, rounding=Rounding.TOWARDS_ZERO)
        arithmetic(asm, ArithmeticOp.AND, shape, whole, whole, Scalar.of((1 << bits) - 1, DType.INT32))
        if not unsigned:  # the sign bit counts down: (x ^ sign) - sign
            sign = Scalar.of(1 << (bits - 1), DType.INT32)
            arithmetic(asm, ArithmeticOp.XOR, shape, whole, whole, sign)
            arithmetic(asm, ArithmeticOp.SUB, shape, whole, whole, sign)
        arithmetic(asm, ArithmeticOp.CAST, shape, result, whole)
