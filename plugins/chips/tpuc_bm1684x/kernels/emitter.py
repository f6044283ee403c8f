"""Emit float arithmetic on one tile, with immediates."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Shape4
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, Operand, Scalar
from tpuc_bm1684x.kernels.binary import DIVISION_STEPS
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.exponential import Exponential


@dataclass(frozen=True)
class FloatEmitter:
    """Emits a function of `x` into `result`, which have the same layout, with the buffers that the function needs.

    `table`: address of the coefficients in every lane, those of the exponential first.
    """

    asm: Bm1684xAssembler
    shape: Shape4
    x: Operand
    result: Operand
    exponential: Exponential | None
    coeffs: tuple[float, ...]
    extra: Operand | None = None
    table: int = 0
    division_steps: int = DIVISION_STEPS

    @property
    def buffers(self) -> tuple[Operand, Operand, Operand]:
        """Two f32 buffers and one int32 buffer, shared with the exponential."""
        assert self.exponential is not None
        return self.exponential.s, self.exponential.t, self.exponential.n

    def do(
        self,
        operation: ArithmeticOp,
        result: Operand,
        left: Operand | float,
        right: Operand | float | None = None,
        rounding: Rounding = Rounding.HALF_TO_EVEN,
        third: float | None = None,
    ) -> None:
        """Record AR on floats; numbers become immediates of the operand's type."""
        kind = self.x.dtype
        iterations = self.division_steps if operation is ArithmeticOp.DIV else 0
        first = left if isinstance(left, Operand) else Scalar.of(left, kind)
        second = right if right is None or isinstance(right, Operand) else Scalar.of(right, kind)
        chosen = None if third is None else Scalar.of(third, kind)
        arithmetic(
            self.asm,
            operation,
            self.shape,
            result,
            first,
            second,
            third=chosen,
            rounding=rounding,
            iterations=iterations,
        )

    def integers(self, operation: ArithmeticOp, result: Operand, left: Operand, right: Operand | int) -> None:
        """Record AR on int32."""
        second = right if isinstance(right, Operand) else Scalar.of(right, DType.INT32)
        arithmetic(self.asm, operation, self.shape, result, left, second)

    def exponential_of_s(self, result: Operand) -> None:
        """``e**s`` of the first of `buffers`, which is overwritten; arguments must not exceed 88."""
        assert self.exponential is not None
        self.exponential.emit(result)
