"""Elementwise arithmetic (AR): many operations on two operands of any layout."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Constant, Encoding, Ignored, Number, Present, When
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.isa import elementwise
from tpuc_bm1684x.isa.codecs import Tensor, extents, operation, rounding
from tpuc_bm1684x.isa.command import ComputeInstruction
from tpuc_bm1684x.isa.types import (
    Array,
    DType,
    Layout,
    Operand,
    Scalar,
    Shape4,
    Source,
    dtype_of,
    regions_of,
    rounding_code,
)

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class ArithmeticOp(enum.IntEnum):
    """Sub-opcodes of AR."""

    MUL = 0
    NOT = 1
    ADD = 2
    SUB = 3
    MAX = 4
    MIN = 5
    LOGICAL_SHIFT = 6
    AND = 7
    OR = 8
    XOR = 9
    SELECT_GREATER = 10
    SELECT_EQUAL = 11
    DIV = 12
    SELECT_LESS = 13
    CAST = 14
    ADD_SATURATE = 15
    SUB_SATURATE = 16
    MULTIPLY_ADD = 18
    COPY = 19
    MUL_SATURATE = 20
    ARITHMETIC_SHIFT = 21
    CIRCULAR_SHIFT = 22
    MUL_HIGH = 23
    EU_INDEX = 24
    LANE_INDEX = 25
    ABS = 26
    ABS_DIFFERENCE = 27
    COPY_BATCH = 28
    LEADING_ZEROS = 29
    LEADING_ONES = 30


Op = ArithmeticOp
_ONE_OPERAND = {Op.NOT, Op.CAST, Op.COPY, Op.ABS, Op.COPY_BATCH, Op.LEADING_ZEROS, Op.LEADING_ONES}
_SELECT = {Op.SELECT_GREATER, Op.SELECT_EQUAL, Op.SELECT_LESS}
_SATURATING = {Op.ADD_SATURATE, Op.SUB_SATURATE, Op.MUL_SATURATE}
_SUMS = {Op.ADD, Op.SUB, Op.MUL} | _SATURATING
_SHIFTS = {Op.LOGICAL_SHIFT, Op.ARITHMETIC_SHIFT, Op.CIRCULAR_SHIFT}
_SAME_TYPE = {
    Op.MAX,
    Op.MIN,
    Op.AND,
    Op.OR,
    Op.XOR,
    Op.NOT,
    Op.ABS,
    Op.COPY,
    Op.ABS_DIFFERENCE,
    Op.LEADING_ONES,
    Op.LEADING_ZEROS,
}
_THIRD = When(
    lambda ar: ar.operation in _SELECT,
    Tensor("third", "opd2", immediate=True),
    otherwise=[Tensor("third", "opd2", prec=0, sign=1, layout=Layout.COMPACT, immediate=True)],
)
_HARMLESS = ("str", "n_str", "c_str", "h_str", "w_str", "sign", "prec", "n", "c", "h", "w")
_NOT_EXECUTED = {Op.MUL_HIGH, Op.EU_INDEX, Op.LANE_INDEX, Op.COPY_BATCH}


@dataclass(frozen=True, kw_only=True)
class Arithmetic(ComputeInstruction):
    """`result = left op right`, element by element (AR).

    Operands are tensors of any layout, tensors with explicit strides (0 broadcasts), or immediates. For SELECT, `third`
    is the value where the comparison holds (else 0). For integer sums and products, it is the shift of the result: an
    int8 immediate or a compact per-channel table, positive left, negative right with `rounding`. `iterations` is for
    DIV. Integers wrap, except in the SATURATE forms and in CAST. `result.dtype` is the target type of CAST.
    """

    table_name = "sAR"
    stem = "ar"
    encoding = Encoding(
        operation(ArithmeticOp),
        extents("shape", "res0"),
        Tensor("left", "opd0", layout=None, immediate=True),
        When(
            lambda ar: ar.operation in _ONE_OPERAND,
            Constant(tsk_opd_num=1),
            otherwise=[
                Tensor("right", "opd1", layout=None, immediate=True),
                Present("tsk_opd_num", ["third"], _THIRD, value=3, absent=2),
            ],
        ),
        When(
            lambda ar: ar.operation is Op.CAST,
            Tensor("result", "res0", sign="opd2_sign", layout=None),
            otherwise=[Tensor("result", "res0", sign=lambda ar: ar.result_sign(), layout=None)],
        ),
        When(
            lambda ar: ar.operation is Op.DIV,
            Number("iterations", "opd2_n_str", offset=1),
            otherwise=[rounding("rounding", "opd2_n_str")],
        ),
        Ignored("opd1_addr", "opd2_addr", "opd1_const", "opd2_const", "opd3_addr", "res1_addr"),
        Ignored(*(f"{operand}_{field}" for operand in ("res0", "opd0", "opd1", "opd2") for field in _HARMLESS)),
    )

    operation: ArithmeticOp
    shape: Shape4
    result: Operand
    left: Source
    right: Source | None = None
    third: Source | None = None
    rounding: Rounding = Rounding.HALF_TO_EVEN
    iterations: int = 0

    def result_sign(self) -> bool:
        """True when an integer result is signed: always for SUB, else when an operand is signed."""
        if self.operation in (Op.SUB, Op.SUB_SATURATE):
            return True
        if self.operation in _SHIFTS or self.right is None:
            return self.left.dtype.signed
        return self.left.dtype.signed or self.right.dtype.signed

    def check(self) -> None:
        super().check()
        if self.operation in _NOT_EXECUTED:
            raise IllegalCommand(f"{self.mnemonic()}: the simulator does not support this operation; use another")
        if self.operation not in _ONE_OPERAND and self.right is None:
            raise IllegalCommand(f"{self.mnemonic()}: needs a right operand")
        if self.operation in _SELECT and self.third is None:
            raise IllegalCommand(f"{self.mnemonic()}: needs a third operand, the value to select")
        self._check_types()

    def _check_types(self) -> None:
        left, result = self.left.dtype, self.result.dtype
        sources = [source for source in (self.left, self.right) if source is not None]
        if self.operation in _SAME_TYPE and left.prec != result.prec:
            raise IllegalCommand(f"{self.mnemonic()}: {left} to {result}; use operand and result of one type")
        if self.operation in (_SAME_TYPE | _SUMS) and len({source.dtype.is_float for source in sources}) > 1:
            raise IllegalCommand(f"{self.mnemonic()}: a float and an integer operand; cast one of them first")
        if self.operation in _SUMS and left.is_float and (left is not result or self.operation in _SATURATING):
            raise IllegalCommand(f"{self.mnemonic()}: {left} to {result}; use ADD, SUB or MUL of one float type")
        if self.operation in _SUMS and left.is_float != result.is_float:
            raise IllegalCommand(f"{self.mnemonic()}: {left} to {result}; use CAST to change the kind of number")
        if self.operation is Op.MULTIPLY_ADD and not left.is_float:
            raise IllegalCommand(f"{self.mnemonic()}: {left}: the simulator supports only floats; use MUL and ADD")
        if self.operation is Op.MULTIPLY_ADD and left.bytes == 2 and not self.target.adds_narrow_products:
            raise IllegalCommand(f"{self.mnemonic()}: {left}: it takes f32 only; cast before")
        if self.operation is Op.ABS_DIFFERENCE and not left.is_float:
            raise IllegalCommand(f"{self.mnemonic()}: {left}: it takes floats only; use SUB and ABS")
        if self.operation is Op.CAST and {left, result} == {DType.F16, DType.BF16}:
            raise IllegalCommand(f"{self.mnemonic()}: {left} to {result}; cast to f32 in between")
        wanted = self.result_sign()
        if self.operation in _SATURATING and not result.is_float and wanted != result.signed:
            kind = "signed" if wanted else "unsigned"
            raise IllegalCommand(f"{self.mnemonic()}: the result of these operands is {kind}; declare it so")
        if self.operation is Op.CAST and left.is_float and not result.is_float and rounding_code(self.rounding) > 4:
            raise IllegalCommand(f"{self.mnemonic()}: float to integer has no rounding {self.rounding.value}")

    def reads(self) -> Sequence[Region]:
        third_shape = self.shape if self.operation in _SELECT else (1, self.shape[1], 1, 1)
        old = self.result if self.operation is Op.MULTIPLY_ADD else None
        return regions_of(
            self.target, (self.left, self.shape), (self.right, self.shape), (self.third, third_shape), (old, self.shape)
        )

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape, self.target)]

    def execute(self, machine: Machine) -> None:
        machine.store(self.result, self.shape, self._compute(machine))

    def _compute(self, machine: Machine) -> Array:
        op, result = self.operation, self.result.dtype
        left = machine.fetch(self.left, self.shape)
        right = machine.fetch(self.right, self.shape) if self.right is not None else left
        if op in _SUMS:
            shift = self._shift(machine)
            return elementwise.combine(op, left, right, result, shift, self.rounding)
        if op in _SELECT:
            assert self.third is not None
            return elementwise.select(op, left, right, machine.fetch(self.third, self.shape), result)
        if op is Op.CAST:
            return elementwise.cast(left, result, self.rounding)
        if op in _SHIFTS:
            return elementwise.shift(op, left, right, result, self.rounding)
        if op is Op.DIV:
            return elementwise.divide(left, right, self.iterations, at_ends=self.target.has_ends_of_roots)
        if op is Op.MULTIPLY_ADD:
            old = machine.load(self.result, self.shape)
            return elementwise.multiply_add(old, left, right, self._shift(machine), self.rounding)
        return elementwise.simple(op, left, right)

    def _shift(self, machine: Machine) -> Array | None:
        if self.third is None or self.operation in _SELECT:
            return None
        return machine.fetch(self.third, (1, self.shape[1], 1, 1))


def immediate(value: float, dtype: DType) -> Scalar:
    """Shorthand for `Scalar.of`."""
    return Scalar.of(value, dtype)


__all__ = ["Arithmetic", "ArithmeticOp", "dtype_of", "immediate"]
