"""Element-wise arithmetic (AR): two operands of any layout, many operations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from tpuc.api import IllegalCommand, Region
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.isa import elementwise
from tpuc_bm1684x.isa.command import (
    ComputeInstruction,
    FieldReader,
    layout_fields,
    shape_fields,
    source_fields,
)
from tpuc_bm1684x.isa.types import (
    Array,
    DType,
    Layout,
    Operand,
    Scalar,
    Shape4,
    Source,
    dtype_of,
    rounding_code,
    rounding_of,
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
_NOT_EXECUTED = {Op.MUL_HIGH, Op.EU_INDEX, Op.LANE_INDEX, Op.COPY_BATCH}


@dataclass(frozen=True, kw_only=True)
class Arithmetic(ComputeInstruction):
    """`result = left op right`, element by element (AR).

    Operands are tensors of any layout, explicit strides (0 repeats), or immediates. `third` is the value that a SELECT
    takes where its comparison holds (else 0), or, for integer sums and products, the shift of the result: an int8
    immediate or a compact per-channel table, positive left, negative right with `rounding`. `iterations` is for DIV.
    Integers wrap, except in the SATURATE forms and in CAST. `result.dtype` decides the target of CAST.
    """

    table_name = "sAR"
    harmless = frozenset(
        f"{operand}_{field}"
        for operand in ("res0", "opd0", "opd1", "opd2")
        for field in ("str", "n_str", "c_str", "h_str", "w_str", "sign", "prec", "n", "c", "h", "w")
    ) | {"opd1_addr", "opd2_addr", "opd1_const", "opd2_const", "opd3_addr", "res1_addr"}

    operation: ArithmeticOp
    shape: Shape4
    result: Operand
    left: Source
    right: Source | None = None
    third: Source | None = None
    rounding: Rounding = Rounding.HALF_TO_EVEN
    iterations: int = 0

    def mnemonic(self) -> str:
        return f"ar.{self.operation.name.lower()}"

    @property
    def operand_count(self) -> int:
        """`tsk_opd_num`."""
        if self.operation in _ONE_OPERAND:
            return 1
        return 2 if self.third is None else 3

    def fields(self) -> dict[str, int]:
        fields = {
            "tsk_eu_typ": int(self.operation),
            "tsk_opd_num": self.operand_count,
            "res0_addr": self.result.address,
            "res0_prec": self.result.dtype.prec,
            "opd2_n_str": self.iterations - 1 if self.operation is Op.DIV else rounding_code(self.rounding),
        }
        fields |= shape_fields("res0", self.shape) | layout_fields("res0", self.result)
        for name, source in (("opd0", self.left), ("opd1", self.right), ("opd2", self.third)):
            if source is None:
                continue
            fields |= source_fields(name, source, layout=name != "opd2")
            fields |= {f"{name}_prec": source.dtype.prec, f"{name}_sign": int(source.dtype.signed)}
        if self.operation is Op.CAST:
            fields["opd2_sign"] = int(self.result.dtype.signed)
        elif self.third is not None and self.operation not in _SELECT:
            fields["opd2_sign"] = 0
        return fields

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        operation = ArithmeticOp(fields["tsk_eu_typ"])
        left = fields.source("opd0", fields["opd0_prec"], fields["opd0_sign"])
        right = third = None
        if operation not in _ONE_OPERAND:
            right = fields.source("opd1", fields["opd1_prec"], fields["opd1_sign"])
            if fields["tsk_opd_num"] == 3:
                prec, sign = (fields["opd2_prec"], fields["opd2_sign"]) if operation in _SELECT else (0, 1)
                third = fields.source("opd2", prec, sign, Layout.ALIGNED if operation in _SELECT else Layout.COMPACT)
        return cls(
            operation=operation,
            shape=fields.shape("res0"),
            result=fields.operand(
                "res0", fields["res0_prec"], _result_sign(operation, left, right, fields["opd2_sign"])
            ),
            left=left,
            right=right,
            third=third,
            rounding=Rounding.HALF_TO_EVEN if operation is Op.DIV else rounding_of(fields["opd2_n_str"]),
            iterations=fields["opd2_n_str"] + 1 if operation is Op.DIV else 0,
        )

    def check(self) -> None:
        super().check()
        if self.operation in _NOT_EXECUTED:
            raise IllegalCommand(f"{self.mnemonic()}: the simulator does not know this operation; use another")
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
            raise IllegalCommand(f"{self.mnemonic()}: {left}: the simulator knows floats only; use MUL and ADD")
        if self.operation is Op.ABS_DIFFERENCE and not left.is_float:
            raise IllegalCommand(f"{self.mnemonic()}: {left}: it takes floats only; use SUB and ABS")
        if self.operation is Op.CAST and {left, result} == {DType.F16, DType.BF16}:
            raise IllegalCommand(f"{self.mnemonic()}: {left} to {result}; cast to f32 in between")
        wanted = _result_sign(self.operation, self.left, self.right, int(result.signed))
        if self.operation in _SATURATING and not result.is_float and wanted != result.signed:
            kind = "signed" if wanted else "unsigned"
            raise IllegalCommand(f"{self.mnemonic()}: the result of these operands is {kind}; declare it so")
        if self.operation is Op.CAST and left.is_float and not result.is_float and rounding_code(self.rounding) > 4:
            raise IllegalCommand(f"{self.mnemonic()}: float to integer has no rounding {self.rounding.value}")

    def reads(self) -> Sequence[Region]:
        regions = [source.region(self.shape) for source in (self.left, self.right) if isinstance(source, Operand)]
        if isinstance(self.third, Operand) and self.operand_count == 3:
            regions.append(self.third.region(self.shape if self.operation in _SELECT else (1, self.shape[1], 1, 1)))
        if self.operation is Op.MULTIPLY_ADD:
            regions.append(self.result.region(self.shape))
        return regions

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape)]

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
            return elementwise.divide(left, right, self.iterations)
        if op is Op.MULTIPLY_ADD:
            old = machine.load(self.result, self.shape)
            return elementwise.multiply_add(old, left, right, self._shift(machine), self.rounding)
        return elementwise.simple(op, left, right)

    def _shift(self, machine: Machine) -> Array | None:
        if self.third is None or self.operation in _SELECT:
            return None
        return machine.fetch(self.third, (1, self.shape[1], 1, 1))


def _result_sign(operation: ArithmeticOp, left: Source, right: Source | None, cast_sign: int) -> bool:
    """Integers: unsigned only when all operands are, and the operation is no subtraction."""
    if operation is Op.CAST:
        return bool(cast_sign)
    if operation in (Op.SUB, Op.SUB_SATURATE):
        return True
    if operation in _SHIFTS or right is None:
        return left.dtype.signed
    return left.dtype.signed or right.dtype.signed


def immediate(value: float, dtype: DType) -> Scalar:
    """Short for `Scalar.of`."""
    return Scalar.of(value, dtype)


__all__ = ["Arithmetic", "ArithmeticOp", "dtype_of", "immediate"]
