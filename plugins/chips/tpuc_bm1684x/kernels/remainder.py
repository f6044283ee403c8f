"""Remainder: corrects the chip's inexact quotient by at most one divisor."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Node, Phase, PlacedTile
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, CompareOp, CompareSelect, DType, Operand, Scalar
from tpuc_bm1684x.kernels.binary import DIVISION_STEPS
from tpuc_bm1684x.kernels.elementwise import ElementwiseKernel, arithmetic
from tpuc_bm1684x.operands import operand

_ZERO, _ONE = Scalar.of(0.0, DType.F32), Scalar.of(1.0, DType.F32)


class RemainderKernel(ElementwiseKernel):
    """Computes the remainder of the magnitudes, then applies the sign: that of the dividend for fmod; otherwise that of
    the divisor, after subtracting the remainder from the divisor where the signs differ.
    """

    temporaries = (("divisor", 4), ("rest", 4), ("other", 4), ("apart", 4), ("sign", 4))

    def refuse(self, node: Node) -> str | None:
        types = (*node.operand_types, node.result_type)
        if any(type_.storage.name != "f32" for type_ in types):
            return f"only f32, these are {', '.join(str(type_.storage) for type_ in types)}"
        return super().refuse(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        shape, result = placed.result.shape, operand(placed.result)
        x, y = self.sources(node, placed, asm)
        divisor, rest, other, apart, sign = (
            Operand(placed.scratch[name].address, DType.F32) for name, _ in self.temporaries
        )

        def do(
            operation: ArithmeticOp,
            target: Operand,
            left: Operand | Scalar,
            right: Operand | Scalar | None = None,
            third: Scalar | None = None,
        ) -> None:
            iterations = DIVISION_STEPS if operation is ArithmeticOp.DIV else 0
            rounding = Rounding.DOWN if operation is ArithmeticOp.CAST else Rounding.HALF_TO_EVEN
            arithmetic(
                asm, operation, shape, target, left, right, third=third, rounding=rounding, iterations=iterations
            )

        def choose(
            operation: CompareOp, target: Operand, compared: Sequence[Operand | Scalar], *chosen: Operand
        ) -> None:
            asm.record(
                CompareSelect(
                    operation=operation,
                    shape=shape,
                    result=target,
                    left=compared[0],
                    right=compared[1],
                    when_true=chosen[0],
                    when_false=chosen[1],
                )
            )

        do(ArithmeticOp.ABS, rest, x)
        do(ArithmeticOp.ABS, divisor, y)
        do(ArithmeticOp.DIV, other, rest, divisor)
        do(ArithmeticOp.CAST, other, other)
        do(ArithmeticOp.MUL, other, other, divisor)
        do(ArithmeticOp.SUB, rest, rest, other)
        do(ArithmeticOp.ADD, other, rest, divisor)
        choose(CompareOp.SELECT_LESS, rest, (rest, _ZERO), other, rest)
        do(ArithmeticOp.SUB, other, rest, divisor)
        choose(CompareOp.SELECT_GREATER, rest, (divisor, rest), rest, other)
        do(ArithmeticOp.SELECT_LESS, sign, x, _ZERO, third=_ONE)
        if not node.op.fmod:
            do(ArithmeticOp.COPY, apart, sign)
            do(ArithmeticOp.SELECT_LESS, sign, y, _ZERO, third=_ONE)
            do(ArithmeticOp.SUB, apart, apart, sign)
            do(ArithmeticOp.ABS, apart, apart)
            do(ArithmeticOp.SELECT_GREATER, other, rest, _ZERO, third=_ONE)
            do(ArithmeticOp.MUL, apart, apart, other)
            do(ArithmeticOp.SUB, other, divisor, rest)
            choose(CompareOp.SELECT_GREATER, rest, (apart, _ZERO), other, rest)
        do(ArithmeticOp.MUL, other, rest, Scalar.of(-1.0, DType.F32))
        choose(CompareOp.SELECT_GREATER, result, (sign, _ZERO), other, rest)
