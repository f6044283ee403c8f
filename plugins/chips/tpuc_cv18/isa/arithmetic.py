"""Elementwise operations."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Coded, Constant, Derived, Encoding, Ignored, Number, When, flag
from tpuc_ops.quant.arithmetic import Rounding, saturate

from tpuc_cv18.isa.bf16 import add_toward_zero, narrow, products, widen
from tpuc_cv18.isa.channels import THIRD
from tpuc_cv18.isa.codecs import REQUANTIZATION, SHIFT, Extents, Tensor, extents
from tpuc_cv18.isa.command import ComputeInstruction, check_near
from tpuc_cv18.isa.finish import requantize, round_shift
from tpuc_cv18.isa.types import Array, DType, Operand, Scalar, Shape4, Source

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine


class ArithmeticOp(enum.IntEnum):
    """Sub-opcodes of tensor arithmetic."""

    MUL = 0
    MAC = 1
    """result = ((old result << left_shift) + left * right) >> shift; the old result is 16-bit"""
    ADD = 2
    SUB = 3
    MAX = 4
    MIN = 5
    SHIFT = 6
    """16-bit values by signed 8-bit counts: left when positive (wrapping), else right (floor)"""
    AND = 7
    OR = 8
    XOR = 9
    GREATER_EQUAL = 11
    """1 where left >= right, else 0"""
    COPY = 10


_LOGIC = (ArithmeticOp.AND, ArithmeticOp.OR, ArithmeticOp.XOR)
_CHOOSING = (ArithmeticOp.MAX, ArithmeticOp.MIN, ArithmeticOp.GREATER_EQUAL)
_CLAMPED = (ArithmeticOp.MUL, ArithmeticOp.MAC, ArithmeticOp.ADD)
_SCALED = (ArithmeticOp.MUL, ArithmeticOp.MAC, ArithmeticOp.ADD, ArithmeticOp.SUB)


_UNSCALED = (*_LOGIC, ArithmeticOp.COPY)


def _operation(code: int) -> ArithmeticOp:
    if code not in set(ArithmeticOp):
        raise IllegalCommand(f"compute descriptor: no operation 3.{code}; the stream is damaged")
    return ArithmeticOp(code)


def _has_wide_sums(tensor: Arithmetic) -> bool:
    """True when the result area holds 16-bit sums, whatever the result type."""
    return tensor.operation is ArithmeticOp.MAC and not tensor.left.dtype.is_float


def _rounds(tensor: Arithmetic) -> bool:
    return not tensor.floor and tensor.operation is not ArithmeticOp.SHIFT


@dataclass(frozen=True, kw_only=True)
class Arithmetic(ComputeInstruction):
    """`result = operation(left, right)`, element by element. All tensors have `shape`, any strides and any start lane,
    except that `right` starts in the same pair of lanes as the result (its address has 16 bits).

    MUL, MAC: 8-bit operands, 8- or 16-bit result; ADD, SUB: 16-bit operands. The result is `saturate(relu(value >>
    shift))`, rounded half up, or down with `floor`. SUB has no relu; with a relu, byte results of signed operands may
    be unsigned. MUL with `multiplier` requantizes the product. MAC keeps its 16-bit accumulator, with the result's
    sign, in planes at the result, `result.plane_step` apart even when the result has 8 bits. bf16: one rounding.
    """

    stem = "tensor"
    encoding = Encoding(
        Constant(tsk_typ=3, short_opd1_str=3, short_opd2_str=3),
        Coded("operation", "tsk_eu_typ", int, _operation),
        Derived("opd_typ", lambda tensor: tensor.left.dtype.is_float),
        extents("shape", "res0"),
        *(Extents(prefix, lambda tensor: tensor.shape) for prefix in ("opd0", "opd1", "opd2")),
        Tensor("left", "opd0", layout=None, shape=lambda tensor: tensor.shape),
        Tensor("result", "res0", layout=None, shape=lambda tensor: tensor.shape, planes=_has_wide_sums),
        When(
            lambda tensor: tensor.operation is ArithmeticOp.COPY,
            Constant(tsk_opd_num=1),
            Ignored("opd1*", "opt_opd1*", "short_opd1*"),
            otherwise=[
                Constant(tsk_opd_num=2),
                Tensor("right", "opd1", layout=None, shape=lambda tensor: tensor.shape, immediate=True),
                When(lambda tensor: isinstance(tensor.right, Scalar), Ignored("opd1*", "short_opd1*")),
                When(lambda tensor: tensor.right.dtype.planes == 1, Ignored("opd1_b_str")),
            ],
        ),
        REQUANTIZATION,
        When(
            lambda tensor: tensor.operation in _SCALED and not tensor.left.dtype.is_float,
            SHIFT,
            Coded("floor", "opt_rshift_typ", lambda floor: not floor, lambda half_up: not half_up),
            otherwise=[Derived("opt_right_shift", lambda tensor: tensor.shift), Derived("opt_rshift_typ", _rounds)],
        ),
        When(lambda tensor: tensor.operation not in _SCALED, Ignored("opt_right_shift")),
        Derived("opt_shift_typ", lambda tensor: tensor.has_signs and tensor.operation not in _UNSCALED),
        Derived("opt_res_add", lambda tensor: tensor.operation is ArithmeticOp.MAC),
        When(
            lambda tensor: tensor.operation is ArithmeticOp.MAC,
            When(
                lambda tensor: tensor.left.dtype.is_float,
                Derived("opt_left_shift", lambda tensor: tensor.left_shift),
                otherwise=[Number("left_shift", "opt_left_shift")],
            ),
        ),
        flag("relu", "opt_relu"),
        When(
            lambda tensor: tensor.result.dtype.planes == 1 and not _has_wide_sums(tensor),
            Ignored("res0_b_str"),
        ),
        When(lambda tensor: tensor.left.dtype.planes == 1, Ignored("opd0_b_str")),
        Ignored("tens_mdsum", "opd0_ins_val", "opd0_ins_fp", "opd2_b_str", "opt_left_shift", *THIRD),
    )

    operation: ArithmeticOp
    shape: Shape4
    result: Operand
    left: Operand
    right: Source | None = None
    shift: int = 0
    left_shift: int = 0
    multiplier: int | None = None
    relu: bool = False
    floor: bool = False

    @property
    def is_float(self) -> bool:
        return self.left.dtype.is_float and self.operation not in _LOGIC

    @property
    def has_signs(self) -> bool:
        """True when the result is signed, or a relu of signed values."""
        return self.result.dtype.signed or self.relu

    @property
    def _accumulator(self) -> Operand:
        """The old result of MAC: 16 bits, whatever the result type."""
        if self.result.dtype.is_float:
            return self.result
        kind = DType.INT16 if self.result.dtype.signed else DType.UINT16
        place = (self.shape, self.target)
        return Operand(self.result.address, kind, self.result.strides(*place), self.result.step(*place))

    # -- checking ----------------------------------------------------------------------------------------------------

    def check(self) -> None:
        super().check()
        name, op = self.mnemonic(), self.operation
        sources = [source.dtype for source in (self.left, self.right) if source is not None]
        if (self.right is None) != (op is ArithmeticOp.COPY):
            raise IllegalCommand(f"{name}: takes {'one operand' if op is ArithmeticOp.COPY else 'two operands'}")
        if op is ArithmeticOp.GREATER_EQUAL and not self.target.has_comparisons:
            raise IllegalCommand(f"{name}: {self.target.name} has no comparisons; use SUB and a lookup")
        if isinstance(self.right, Operand):
            check_near(name, "the right operand", self.right.address, self.result)
        if len({dtype.is_float for dtype in (*sources, self.result.dtype)}) > 1:
            raise IllegalCommand(f"{name}: bf16 and integers cannot be mixed; convert with a DMA copy")
        if self.relu and (self.result.dtype.planes > 1 or op not in _CLAMPED):
            raise IllegalCommand(f"{name}: relu needs MUL, MAC or ADD with an 8-bit or bf16 result; use MAX")
        if self.multiplier is not None and (
            op is not ArithmeticOp.MUL or self.is_float or self.result.dtype.planes > 1
        ):
            raise IllegalCommand(f"{name}: only an 8-bit integer product can be requantized; drop the multiplier")
        if not self.left.dtype.is_float:
            self._check_integers(name, sources)

    def _check_integers(self, name: str, sources: Sequence[DType]) -> None:
        op = self.operation
        wide = 2 if op in (ArithmeticOp.ADD, ArithmeticOp.SUB, ArithmeticOp.SHIFT) else 1
        same = op in (*_CHOOSING, ArithmeticOp.COPY, *_LOGIC)
        if op is ArithmeticOp.SHIFT:
            if (*sources, self.result.dtype) != (DType.INT16, DType.INT8, DType.INT16):
                raise IllegalCommand(f"{name}: takes int16 by int8 to int16 only; convert the operands")
            return
        if op in _LOGIC and any(dtype.signed for dtype in sources):
            raise IllegalCommand(f"{name}: signed operands; bits have no sign, make them unsigned")
        if op not in _LOGIC and any(dtype.planes != wide for dtype in sources):
            kinds = " and ".join(map(str, sources))
            raise IllegalCommand(f"{name}: operands {kinds}, it takes {8 * wide}-bit ones; convert them")
        if same and any(dtype is not self.result.dtype for dtype in sources):
            raise IllegalCommand(f"{name}: {sources[0]} to {self.result.dtype}; use operands and result of one type")
        if op not in _SCALED:
            return
        any_signed = any(dtype.signed for dtype in sources)
        if op is ArithmeticOp.SUB and not any_signed:
            raise IllegalCommand(f"{name}: two unsigned operands; make one of them int16")
        if self.relu and not any_signed:
            raise IllegalCommand(f"{name}: relu of unsigned operands; drop it")
        if any_signed != self.result.dtype.signed and not (self.relu and any_signed):
            wanted = "signed" if any_signed else "unsigned"
            raise IllegalCommand(f"{name}: the result {self.result} must be {wanted}, as its operands are")

    def reads(self) -> Sequence[Region]:
        regions = self.left.regions(self.shape, self.target)
        if isinstance(self.right, Operand):
            regions += self.right.regions(self.shape, self.target)
        if self.operation is ArithmeticOp.MAC:
            regions += self._accumulator.regions(self.shape, self.target)
        return regions

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.shape, self.target)

    # -- execution ---------------------------------------------------------------------------------------------------

    def execute(self, machine: Machine) -> None:
        left = machine.load(self.left, self.shape)
        right = np.zeros((), left.dtype) if self.right is None else machine.fetch(self.right, self.shape)
        result = self._float(machine, left, right) if self.is_float else self._integer(machine, left, right)
        machine.store(self.result, self.shape, result)

    def _float(self, machine: Machine, left: Array, right: Array) -> Array:
        a, b = widen(left), widen(np.atleast_1d(right))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            match self.operation:
                case ArithmeticOp.MUL:
                    value = a * b
                case ArithmeticOp.MAC:
                    value = add_toward_zero(widen(machine.load(self.result, self.shape)), products(a, b))
                case ArithmeticOp.ADD:
                    value = a + b
                case ArithmeticOp.SUB:
                    value = a - b
                case ArithmeticOp.MAX:
                    value = np.maximum(a, b)
                case ArithmeticOp.MIN:
                    value = np.minimum(a, b)
                case ArithmeticOp.GREATER_EQUAL:
                    value = np.where(np.isfinite(a) & np.isfinite(b), a >= b, np.float32(np.inf))
                case _:
                    value = a
            return narrow(value, self.relu)

    def _integer(self, machine: Machine, left: Array, right: Array) -> Array:
        match self.operation:
            case ArithmeticOp.MAX:
                return np.maximum(left, right)
            case ArithmeticOp.MIN:
                return np.minimum(left, right)
            case ArithmeticOp.GREATER_EQUAL:
                return (left >= right).astype(left.dtype)
            case ArithmeticOp.AND:
                return left & right
            case ArithmeticOp.OR:
                return left | right
            case ArithmeticOp.XOR:
                return left ^ right
            case ArithmeticOp.COPY:
                return left.copy()
            case ArithmeticOp.SHIFT:
                return _shift(left, right)
            case _:
                return self._scaled(machine, left.astype(np.int64), right.astype(np.int64))

    def _scaled(self, machine: Machine, left: Array, right: Array) -> Array:
        dtype = self.result.dtype
        match self.operation:
            case ArithmeticOp.ADD:
                value = left + right
            case ArithmeticOp.SUB:
                value = left - right
            case ArithmeticOp.MAC:
                value = (machine.load(self._accumulator, self.shape).astype(np.int64) << self.left_shift) + left * right
            case _:
                value = left * right
        if self.multiplier is not None:
            return requantize(value, self.multiplier, self.shift, self.relu, dtype)
        rounding = Rounding.DOWN if self.floor else Rounding.HALF_UP
        return round_shift(value, self.shift, self.relu, dtype, rounding)


def _shift(values: Array, counts: Array) -> Array:
    wide, steps = values.astype(np.int64), counts.astype(np.int64)
    if steps.size and max(-int(steps.min()), int(steps.max())) > 16:
        raise IllegalCommand("tensor.shift: a count beyond -16..16; clamp the counts")
    up = (wide << np.clip(steps, 0, 16)).astype(np.int16)
    down = saturate(wide >> np.clip(-steps, 0, 63), np.int16)
    return np.where(steps > 0, up, down)
