"""Matrix products: MM2, and MM for matrices split into column pieces."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Cases, Coded, Constant, Derived, Encoding, Ignored, Number, When, flag
from tpuc.api.simulation import exact_matmul
from tpuc_ops.quant.arithmetic import Rounding, saturate, shift_right

from tpuc_bm1684x.isa import fused
from tpuc_bm1684x.isa.codecs import IntegerSign, Tensor, operation, rounding, states_operands, uses_registers
from tpuc_bm1684x.isa.command import KERNEL_POINT, ComputeInstruction
from tpuc_bm1684x.isa.elementwise import flush
from tpuc_bm1684x.isa.fused import Fusion, Requantizing
from tpuc_bm1684x.isa.sums import aligned_matmul, alternating_matmul
from tpuc_bm1684x.isa.types import Array, DType, Layout, Operand, Scalar, Shape4, Source, regions_of

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


def _left_prec(product: MatMul | SplitMatMul) -> int:
    return product.left.dtype.prec


class MatMulOp(enum.IntEnum):
    """Sub-opcodes of MM2: N or T for the left and the right operand, T for stored transposed."""

    NN = 4
    NT = 5
    TT = 6


_ZERO_POINT = Tensor(
    "zero_point",
    "opd2",
    prec=0,
    sign=lambda product: product.right.dtype.signed,
    layout=lambda product: Layout.COMPACT if product.operation is MatMulOp.TT else Layout.ALIGNED,
    immediate=True,
    optional=True,
)


_BIAS = Tensor(
    "bias", "opd2", prec=lambda product: (DType.INT32 if product.is_integer else DType.F32).prec, sign=1, optional=True
)
_UNUSED = Ignored("opd2_addr", "opd2_const")


@dataclass(frozen=True, kw_only=True)
class MatMul(Requantizing):
    """`result[rows, columns]` from aligned (1, rows, 1, columns) matrices, one row per lane (MM2).

    NN: left[rows, depth] times right[depth, columns]. NT: right is stored [columns, depth]. TT: right[rows, depth]
    times left[depth, columns]. int8: int32 result, with `zero_point` subtracted from right (an immediate, or for NN and
    NT an aligned table (1, 64, 1, columns) with one entry per column). f16, bf16: f32 result or the same type.
    `accumulate` adds the old result, which is f32 for floats, whatever `result` is. `bias`: a row (1, lanes, 1,
    columns) of int32 or f32 that is equal in all lanes, where the command has one.
    """

    table_name = "sMM2"
    stem = "mm2"
    encoding = Encoding(
        operation(MatMulOp),
        Tensor("left", "opd0", immediate=True, float_sign=0),
        Tensor("right", "opd1", prec=_left_prec, immediate=True, float_sign=0),
        Tensor("result", "res0", sign=1),
        Number("rows", "res0_c"),
        Number("columns", "res0_w"),
        Cases("operation", {MatMulOp.NN: Number("depth", "opd1_c")}, others=Number("depth", "opd1_w")),
        Derived("opd1_c", lambda product: product.right_dims()[1]),
        Derived("opd1_w", lambda product: product.right_dims()[3]),
        flag("accumulate", "res_add"),
        When(states_operands, Derived("opd1_prec", _left_prec), IntegerSign()),
        When(
            uses_registers,
            Constant(opd2_sign=1, opd4_const=1),
            Fusion(states_constant=True),
            Ignored("opd2_n_str"),
            When(lambda product: product.bias is None, Ignored("opd2_sign")),
        ),
        When(lambda product: states_operands(product) and not product.is_integer, flag("relu", "relu")),
        When(states_operands, _BIAS, otherwise=[When(lambda product: product.is_integer, _ZERO_POINT), _UNUSED]),
    )

    operation: MatMulOp
    rows: int
    columns: int
    depth: int
    result: Operand
    left: Source
    right: Source
    zero_point: Source | None = None
    bias: Operand | None = None
    accumulate: bool = False

    @property
    def channels(self) -> int:
        """Columns of the result."""
        return self.columns

    @property
    def reads_kernel_point(self) -> bool:
        """True where the zero point of the right operand is in a register."""
        return uses_registers(self)

    @property
    def is_integer(self) -> bool:
        """True when it multiplies integers."""
        return not self.left.dtype.is_float

    def right_dims(self) -> Shape4:
        """Extents of the right matrix as a tensor."""
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

    def check(self) -> None:
        super().check()
        kind, result = self.left.dtype, self.result.dtype
        if kind.bytes == 4 or (kind.bytes == 2 and not kind.is_float) or kind.prec != self.right.dtype.prec:
            raise IllegalCommand(
                f"{self.mnemonic()}: {kind} times {self.right.dtype}; use int8, f16 or bf16 on both sides"
            )
        if self.requantizes:
            fused.check(self.mnemonic(), self.target, result)
        if self.requantizes and (self.table is not None or self.accumulate):
            raise IllegalCommand(f"{self.mnemonic()}: it requantizes whole sums by one multiplier; use another command")
        if result not in ((kind, DType.F32) if kind.is_float else (DType.INT32,)) and not self.requantizes:
            raise IllegalCommand(
                f"{self.mnemonic()}: {kind} to {result}; use int32 for int8, f32 or the same type for floats"
            )
        if uses_registers(self) and self.zero_point is not None:
            raise IllegalCommand(f"{self.mnemonic()}: the zero point is in a register here; write it there")
        if isinstance(self.zero_point, Operand) and self.operation is MatMulOp.TT:
            raise IllegalCommand(
                f"{self.mnemonic()}: the simulator does not support a zero point table here; use an immediate"
            )

    def sources(self) -> Sequence[tuple[Source, Shape4]]:
        pairs = [(self.left, self._left_dims()), (self.right, self.right_dims())]
        if self.bias is not None:
            pairs.append((self.bias, self._row_dims()))
        if self.zero_point is not None:
            pairs.append((self.zero_point, (1, self.target.lanes, 1, self.columns)))
        if self.accumulate:
            pairs.append((self._old_result(), self._result_dims()))
        return pairs

    def _row_dims(self) -> Shape4:
        return (1, min(self.rows, self.target.lanes), 1, self.columns)

    def _old_result(self) -> Operand:
        return Operand(self.result.address, DType.F32 if self.left.dtype.is_float else DType.INT32)

    def reads(self) -> Sequence[Region]:
        return fused.registers_read(self) + regions_of(self.target, *self.sources())

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self._result_dims(), self.target)]

    def execute(self, machine: Machine) -> None:
        matrices = [_matrix(machine, source, shape) for source, shape in self.sources()[:2]]
        left, right = matrices
        if self.operation is MatMulOp.NT:
            right = right.T
        if uses_registers(self):
            right = right.astype(np.int16) - np.int16(machine.register(KERNEL_POINT))
        elif self.zero_point is not None:
            point = machine.fetch(self.zero_point, (1, self.target.lanes, 1, self.columns))
            right = right.astype(np.int16) - (point[0, 0, 0] if point.ndim else point).astype(np.int16)
        first, second = (right, left) if self.operation is MatMulOp.TT else (left, right)
        old = machine.load(self._old_result(), self._result_dims())[0, :, 0] if self.accumulate else None
        if self.bias is not None:
            row = machine.load(self.bias, self._row_dims())[0, :1, 0]
            old = np.broadcast_to(row, (self.rows, self.columns)) if old is None else _both(old, row)
        if self.left.dtype.is_float:
            value = aligned_matmul(first, second, old, self.result.dtype.numpy, self.target.packing[2])
            value = _positive(value) if self.relu else value
        else:
            value = exact_matmul(first, second, 383)
            value = value if old is None else value + old
            value = fused.fused(machine, self, value, self.result.dtype) if self.requantizes else value
        machine.store(self.result, self._result_dims(), value[None, :, None, :])


@np.errstate(all="ignore")
def _positive(value: Array) -> Array:
    """The values above zero; others, and what is no number, become 0."""
    return np.where(value > 0, value, value.dtype.type(0))


@np.errstate(all="ignore")
def _both(old: Array, bias: Array) -> Array:
    """The start of the sums where there are an old result and a bias."""
    return flush(old) + flush(bias)


def _matrix(machine: Machine, source: Source, shape: Shape4) -> Array:
    return np.broadcast_to(machine.fetch(source, shape), shape)[0, :, 0, :]


class SplitMatMulOp(enum.IntEnum):
    """Sub-opcodes of MM."""

    NORMAL = 1
    REQUANTIZE = 2
    REQUANTIZE_RELU = 3
    REQUANTISE, REQUANTISE_RELU = 2, 3
    """Names until 0.3, which timing tools of others still state."""


@dataclass(frozen=True, kw_only=True)
class SplitMatMul(ComputeInstruction):
    """`result[rows, columns] = left[rows, depth] @ right[depth, columns]`, with matrices split over lanes (MM).

    A matrix of `k` columns is an aligned tensor (rows, ceil(k / w), 1, w), where w is `left_width` or `right_width`.
    NORMAL: f32 with a `bias` row split like the result; or int32 shifted by `shift` (positive left) with `rounding`.
    REQUANTIZE: sat((acc + int16 bias) >> shift), half up. `transpose_left`: left is stored [depth, rows].
    """

    table_name = "sMM"
    stem = "mm"
    encoding = Encoding(
        operation(SplitMatMulOp),
        Tensor("left", "opd0", immediate=True, float_sign=0),
        Tensor("right", "opd1", prec=_left_prec, float_sign=0),
        Tensor("result", "res0", sign=lambda product: product.operation is not SplitMatMulOp.REQUANTIZE_RELU),
        Number("rows", "opd0_n"),
        Number("left_pieces", "opd0_c"),
        Number("left_width", "opd0_w"),
        Number("left_last", "opd1_w"),
        Number("right_pieces", "res0_c"),
        Number("right_width", "res0_w"),
        rounding("rounding", "opd2_n_str"),
        flag("transpose_left", "left_tran"),
        flag("accumulate", "res_add"),
        When(
            lambda product: product.is_shifted,
            Tensor("shift", "opd2", prec=0, layout=Layout.COMPACT, immediate=True, optional=True),
            otherwise=[
                Tensor("bias", "opd2", prec=lambda product: product.bias_dtype.prec, sign=1, optional=True),
                Derived("opd2_sign", lambda product: product.bias is not None and not product.left.dtype.is_float),
            ],
        ),
        When(
            lambda product: product.operation is not SplitMatMulOp.NORMAL,
            Coded("fused_shift", "opd3_addr", int, int, at=8, width=8),
        ),
        Ignored("opd2_sign", "opd2_n_str", "opd2_addr", "opd2_const", "opd3_addr"),
    )

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

    @property
    def is_shifted(self) -> bool:
        """True when `shift` applies to the sums; there is no bias then."""
        return self.operation is SplitMatMulOp.NORMAL and not self.left.dtype.is_float

    @property
    def bias_dtype(self) -> DType:
        """The element type of a bias."""
        return DType.F32 if self.left.dtype.is_float else DType.INT16

    @property
    def depth(self) -> int:
        """The common dimension of both matrices."""
        return self.rows if self.transpose_left else (self.left_pieces - 1) * self.left_width + self.left_last

    @property
    def result_rows(self) -> int:
        """Rows of the result."""
        if self.transpose_left:
            return (self.left_pieces - 1) * self.left_width + self.left_last
        return self.rows

    def check(self) -> None:
        super().check()
        if isinstance(self.shift, Operand):
            raise IllegalCommand(
                f"{self.mnemonic()}: the simulator does not support a per-column shift; use an immediate"
            )
        if self.left.dtype.bytes == 2:
            raise IllegalCommand(f"{self.mnemonic()}: {self.left.dtype}: use MM2 for 16-bit types")

    def _left_dims(self) -> Shape4:
        return (self.rows, self.left_pieces, 1, self.left_width)

    def right_dims(self) -> Shape4:
        """Extents of the right matrix as a tensor."""
        return (self.depth, self.right_pieces, 1, self.right_width)

    def _result_dims(self) -> Shape4:
        return (self.result_rows, self.right_pieces, 1, self.right_width)

    def reads(self) -> Sequence[Region]:
        return regions_of(
            self.target,
            (self.right, self.right_dims()),
            (self.left, self._left_dims()),
            (self.bias, (1, self.right_pieces, 1, self.right_width)),
            (self.result if self.accumulate else None, self._result_dims()),
        )

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self._result_dims(), self.target)]

    def execute(self, machine: Machine) -> None:
        dims = self._result_dims()
        left = np.broadcast_to(machine.fetch(self.left, self._left_dims()), self._left_dims())
        left = left.reshape(self.rows, -1)[:, : (self.left_pieces - 1) * self.left_width + self.left_last]
        if self.transpose_left:
            left = left.T
        right = machine.load(self.right, self.right_dims()).reshape(self.depth, -1)
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
