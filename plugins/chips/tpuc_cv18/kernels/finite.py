"""Replace bf16 patterns that the chip reads as NaN by large numbers."""

from __future__ import annotations

from tpuc.api import Node, Phase, PlacedTile
from tpuc_ops.tpu.finite import HIGHEST

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar, natural_strides
from tpuc_cv18.kernels.elementwise import ElementwiseKernel

_BYTES = 2
_SIGN = 0x80


class FiniteKernel(ElementwiseKernel):
    """On the bytes of the numbers: the lower ones are copied. The upper ones take two minima, as unsigned bytes, which
    leaves what has no sign, and as signed ones.
    """

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        source, result = placed.operand(0), placed.result
        strides = natural_strides(self.target, result.shape, _BYTES)

        def compute(operation: ArithmeticOp, left: int, byte: int, dtype: DType, limit: int | None = None) -> None:
            asm.record(
                Arithmetic(
                    operation=operation,
                    shape=result.shape,
                    result=Operand(result.address + byte, dtype, strides),
                    left=Operand(left + byte, dtype, strides),
                    right=None if limit is None else Scalar.of(limit, dtype),
                )
            )

        compute(ArithmeticOp.COPY, source.address, 0, DType.UINT8)
        compute(ArithmeticOp.MIN, source.address, 1, DType.UINT8, _SIGN | HIGHEST)
        compute(ArithmeticOp.MIN, result.address, 1, DType.INT8, HIGHEST)
