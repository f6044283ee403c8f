"""Matrix products (MM2, and MM for matrices cut into pieces of columns)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc_ops.quant.arithmetic import Rounding, saturate, shift_right

from tpuc_bm1684x.isa.command import ComputeInstruction, FieldReader, source_fields
from tpuc_bm1684x.isa.sums import aligned_matmul, alternating_matmul
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
from tpuc_bm1684x.isa.windows import exact_matmul

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class MatMulOp(enum.IntEnum):
    """Sub-opcodes of MM2: is the left, the right operand stored transposed?"""

    NN = 4
    NT = 5
    TT = 6


@dataclass(frozen=True, kw_only=True)
class MatMul(ComputeInstruction):
    """`result[rows, columns]` from aligned (1, rows, 1, columns) matrices, one row per lane (MM2).

    NN: left[rows, depth] times right[depth, columns]. NT: right is stored [columns, depth]. TT: right[rows, depth]
    times left[depth, columns]. int8: int32 result, right minus `zero_point` (immediate; or a table, one entry per
    column (1, 64, 1, columns) aligned for NN and NT). f16, bf16: f32 or same type. `accumulate` adds the old result,
    which is f32 for floats, whatever `result` is.
    """

    table_name = "sMM2"
    harmless = frozenset({"opd2_addr", "opd2_const"})

    operation: MatMulOp
    rows: int
    columns: int
    depth: int
    result: Operand
    left: Source
    right: Source
    zero_point: Source | None = None
    accumulate: bool = False

    def mnemonic(self) -> str:
        return f"mm2.{self.operation.name.lower()}"

    def _right_dims(self) -> Shape4:
        pairs = {
            MatMulOp.NN: (self.depth, self.columns),
            MatMulOp.NT: (self.columns, self.depth),
            MatMulOp.TT: (self.rows, self.depth),
        }
        rows, columns = pairs[self.operation]
        return (1, rows, 1, columns)

    def _left_dims(self) -> Shape4:
        if self.operation is MatMulOp.TT:
            return (1, self.depth, 1, self.columns)
        return (1, self.rows, 1, self.depth)

    def _result_dims(self) -> Shape4:
        return (1, self.rows, 1, self.columns)

    def fields(self) -> dict[str, int]:
        integer = not self.left.dtype.is_float
        _, right_rows, _, right_columns = self._right_dims()
        fields = {
            "tsk_eu_typ": int(self.operation),
            "opd0_sign": int(integer and self.left.dtype.signed),
            "opd1_sign": int(integer and self.right.dtype.signed),
            "opd0_prec": self.left.dtype.prec,
            "res0_prec": self.result.dtype.prec,
            "res0_addr": self.result.address,
            "res0_c": self.rows,
            "res0_w": self.columns,
            "opd1_c": right_rows,
            "opd1_w": right_columns,
            "res_add": int(self.accumulate),
        }
        fields |= source_fields("opd0", self.left) | source_fields("opd1", self.right)
        if integer:
            fields |= source_fields("opd2", self.zero_point)
        return fields

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        operation = MatMulOp(fields["tsk_eu_typ"])
        kind = dtype_of(fields["opd0_prec"], fields["opd0_sign"])
        zero_point: Source | None = None
        if not kind.is_float:
            layout = Layout.COMPACT if operation is MatMulOp.TT else Layout.ALIGNED
            zero_point = fields.source("opd2", 0, fields["opd1_sign"], layout)
            if isinstance(zero_point, Scalar) and not zero_point.bits:
                zero_point = None
        return cls(
            operation=operation,
            rows=fields["res0_c"],
            columns=fields["res0_w"],
            depth=fields["opd1_c" if operation is MatMulOp.NN else "opd1_w"],
            result=fields.plain("res0", fields["res0_prec"], 1),
            left=fields.source("opd0", kind.prec, fields["opd0_sign"], Layout.ALIGNED),
            right=fields.source("opd1", kind.prec, fields["opd1_sign"], Layout.ALIGNED),
            zero_point=zero_point,
            accumulate=bool(fields["res_add"]),
        )

    def check(self) -> None:
        super().check()
        kind, result = self.left.dtype, self.result.dtype
        if kind.bytes == 4 or (kind.bytes == 2 and not kind.is_float) or kind.prec != self.right.dtype.prec:
            raise IllegalCommand(
                f"{self.mnemonic()}: {kind} times {self.right.dtype}; use int8, f16 or bf16 on both sides"
            )
        if result not in ((kind, DType.F32) if kind.is_float else (DType.INT32,)):
            raise IllegalCommand(
                f"{self.mnemonic()}: {kind} to {result}; use int32 for int8, f32 or the same type for floats"
            )
        if isinstance(self.zero_point, Operand) and self.operation is MatMulOp.TT:
            raise IllegalCommand(f"{self.mnemonic()}: the simulator knows no zero point table here; use an immediate")

    def sources(self) -> Sequence[tuple[Source, Shape4]]:
        pairs = [(self.left, self._left_dims()), (self.right, self._right_dims())]
        if self.zero_point is not None:
            pairs.append((self.zero_point, (1, 64, 1, self.columns)))
        if self.accumulate:
            pairs.append((self._old_result(), self._result_dims()))
        return pairs

    def _old_result(self) -> Operand:
        return Operand(self.result.address, DType.F32 if self.left.dtype.is_float else DType.INT32)

    def reads(self) -> Sequence[Region]:
        return [source.region(shape) for source, shape in self.sources() if isinstance(source, Operand)]

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self._result_dims())]

    def execute(self, machine: Machine) -> None:
        matrices = [_matrix(machine, source, shape) for source, shape in self.sources()[:2]]
        left, right = matrices
        if self.operation is MatMulOp.NT:
            right = right.T
        if self.zero_point is not None:
            point = machine.fetch(self.zero_point, (1, 64, 1, self.columns))
            right = right.astype(np.int16) - (point[0, 0, 0] if point.ndim else point).astype(np.int16)
        first, second = (right, left) if self.operation is MatMulOp.TT else (left, right)
        old = machine.load(self._old_result(), self._result_dims())[0, :, 0] if self.accumulate else None
        if self.left.dtype.is_float:
            value = aligned_matmul(first, second, old, self.result.dtype.numpy)
        else:
            value = exact_matmul(first, second, 383)
            value = value if old is None else value + old
        machine.store(self.result, self._result_dims(), value[None, :, None, :])


def _matrix(machine: Machine, source: Source, shape: Shape4) -> Array:
    return np.broadcast_to(machine.fetch(source, shape), shape)[0, :, 0, :]


class SplitMatMulOp(enum.IntEnum):
    """Sub-opcodes of MM."""

    NORMAL = 1
    REQUANTISE = 2
    REQUANTISE_RELU = 3


@dataclass(frozen=True, kw_only=True)
class SplitMatMul(ComputeInstruction):
    """`result[rows, columns] = left[rows, depth] @ right[depth, columns]`, matrices cut over lanes (MM).

    A matrix of `k` columns is an aligned tensor (rows, ceil(k / w), 1, w); `left_width` and `right_width` are the w.
    NORMAL: f32 with a `bias` row in the result's cut; int32 shifted by `shift` (positive left) with `rounding`.
    REQUANTISE: sat((acc + int16 bias) >> shift), half up. `transpose_left`: left is stored [depth, rows].
    """

    table_name = "sMM"
    harmless = frozenset({"opd2_sign", "opd2_n_str", "opd2_addr", "opd2_const", "opd3_addr"})

    operation: SplitMatMulOp
    rows: int
    left_pieces: int
    left_width: int
    left_last: int
    """Valid columns in the last piece of the left matrix; with `transpose_left` see the register description."""
    right_pieces: int
    right_width: int
    result: Operand
    left: Source
    right: Operand
    bias: Operand | None = None
    shift: Source | None = None
    fused_shift: int = 0
    rounding: Rounding = Rounding.HALF_TO_EVEN
    transpose_left: bool = False
    accumulate: bool = False

    def mnemonic(self) -> str:
        return f"mm.{self.operation.name.lower()}"

    @property
    def depth(self) -> int:
        """The common dimension."""
        return self.rows if self.transpose_left else (self.left_pieces - 1) * self.left_width + self.left_last

    @property
    def result_rows(self) -> int:
        """Rows of the result."""
        if self.transpose_left:
            return (self.left_pieces - 1) * self.left_width + self.left_last
        return self.rows

    def fields(self) -> dict[str, int]:
        integer = not self.left.dtype.is_float
        third = self.bias if self.bias is not None else self.shift
        fields = {
            "tsk_eu_typ": int(self.operation),
            "res_add": int(self.accumulate),
            "left_tran": int(self.transpose_left),
            "opd0_sign": int(integer and self.left.dtype.signed),
            "opd1_sign": int(integer and self.right.dtype.signed),
            "opd2_sign": int(integer and third is not None and third.dtype.signed),
            "res0_prec": self.result.dtype.prec,
            "opd0_prec": self.left.dtype.prec,
            "opd2_n_str": rounding_code(self.rounding),
            "res0_addr": self.result.address,
            "res0_c": self.right_pieces,
            "res0_w": self.right_width,
            "opd0_n": self.rows,
            "opd0_c": self.left_pieces,
            "opd0_w": self.left_width,
            "opd1_w": self.left_last,
            "opd1_addr": self.right.address,
            "opd3_addr": self.fused_shift << 8,
        }
        return fields | source_fields("opd0", self.left) | source_fields("opd2", third)

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        operation = SplitMatMulOp(fields["tsk_eu_typ"])
        kind = dtype_of(fields["opd0_prec"], fields["opd0_sign"])
        bias: Operand | None = None
        shift: Source | None = None
        if kind.is_float or operation is not SplitMatMulOp.NORMAL:
            if not fields["opd2_const"]:
                bias = fields.plain("opd2", 2 if kind.is_float else 3, 1)
        else:
            shift = fields.source("opd2", 0, 1, Layout.COMPACT)
        fused = operation is not SplitMatMulOp.NORMAL
        return cls(
            operation=operation,
            rows=fields["opd0_n"],
            left_pieces=fields["opd0_c"],
            left_width=fields["opd0_w"],
            left_last=fields["opd1_w"],
            right_pieces=fields["res0_c"],
            right_width=fields["res0_w"],
            result=fields.plain("res0", fields["res0_prec"], operation is not SplitMatMulOp.REQUANTISE_RELU),
            left=fields.source("opd0", kind.prec, fields["opd0_sign"], Layout.ALIGNED),
            right=fields.plain("opd1", kind.prec, fields["opd1_sign"]),
            bias=bias,
            shift=shift,
            fused_shift=fields["opd3_addr"] >> 8 & 0xFF if fused else 0,
            rounding=rounding_of(fields["opd2_n_str"]),
            transpose_left=bool(fields["left_tran"]),
            accumulate=bool(fields["res_add"]),
        )

    def check(self) -> None:
        super().check()
        if isinstance(self.shift, Operand):
            raise IllegalCommand(f"{self.mnemonic()}: the simulator knows no per-column shift; use an immediate")
        if self.left.dtype.bytes == 2:
            raise IllegalCommand(f"{self.mnemonic()}: {self.left.dtype}: use MM2 for 16-bit types")

    def _left_dims(self) -> Shape4:
        return (self.rows, self.left_pieces, 1, self.left_width)

    def _right_dims(self) -> Shape4:
        return (self.depth, self.right_pieces, 1, self.right_width)

    def _result_dims(self) -> Shape4:
        return (self.result_rows, self.right_pieces, 1, self.right_width)

    def reads(self) -> Sequence[Region]:
        regions = [self.right.region(self._right_dims())]
        if isinstance(self.left, Operand):
            regions.append(self.left.region(self._left_dims()))
        if self.bias is not None:
            regions.append(self.bias.region((1, self.right_pieces, 1, self.right_width)))
        if self.accumulate:
            regions.append(self.result.region(self._result_dims()))
        return regions

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self._result_dims())]

    def execute(self, machine: Machine) -> None:
        dims = self._result_dims()
        left = np.broadcast_to(machine.fetch(self.left, self._left_dims()), self._left_dims())
        left = left.reshape(self.rows, -1)[:, : (self.left_pieces - 1) * self.left_width + self.left_last]
        if self.transpose_left:
            left = left.T
        right = machine.load(self.right, self._right_dims()).reshape(self.depth, -1)
        bias = None
        if self.bias is not None:
            bias = machine.load(self.bias, (1, *dims[1:])).reshape(1, -1)
        result = self.result.dtype
        old = machine.load(self.result, dims).reshape(self.result_rows, -1) if self.accumulate else None
        if result.is_float:
            total = alternating_matmul(left, right, bias, old)
        else:
            wide = left.astype(np.int64) @ right.astype(np.int64)
            wide = wide if bias is None else wide + bias
            if self.operation is SplitMatMulOp.NORMAL:
                amount = self.shift.value() if isinstance(self.shift, Scalar) else np.zeros((), np.int8)
                wide = shift_right(wide, -amount.astype(np.int64), self.rounding)
            else:
                wide = shift_right(wide, np.int64(self.fused_shift), Rounding.HALF_UP)
            total = saturate(wide, result.numpy)
            total = total if old is None else total + old
        machine.store(self.result, dims, total.reshape(dims))
