"""Matrix multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import (
    Coded,
    Constant,
    Derived,
    Draft,
    Encoding,
    FieldCodec,
    Fields,
    Ignored,
    Number,
    Present,
    When,
    flag,
)
from tpuc.api.simulation import exact_matmul

from tpuc_cv18.isa.bf16 import multiply_ordered, widen
from tpuc_cv18.isa.channels import INPUT_STRIDES, KERNEL_STRIDES, THIRD, THIRD_STRIDES, check_result
from tpuc_cv18.isa.codecs import FLOAT, REQUANTIZATION, SHIFT, Extents, Tensor, extents, near
from tpuc_cv18.isa.command import ComputeInstruction, check_multiple, check_near
from tpuc_cv18.isa.finish import (
    PartialSum,
    finish_float,
    load_sums,
    requantize,
    round_shift,
    store_sums,
    sum_planes,
    wrap,
)
from tpuc_cv18.isa.target import Target
from tpuc_cv18.isa.types import NEAR_MASK, Array, DType, Layout, Operand, Pair, Shape4, natural_strides

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine


def split_columns(columns: int, dtype: DType, target: Target) -> Pair:
    """(channels, width): how the vendor distributes the columns of a matrix over the lanes (chip.md)."""
    unit = dtype.vector
    if columns < unit:
        return 1, columns
    width = unit * -(-columns // (target.lanes * unit))
    return -(-columns // width), width


class _Bias(FieldCodec):
    """Codec of a bias address and its sign; a float bias decodes as signed."""

    def write(self, instruction: MatMul, fields: dict[str, int]) -> None:
        assert instruction.bias is not None
        fields |= {"opd2_addr": instruction.bias & NEAR_MASK, "opt_opd2_sign": int(instruction.bias_signed)}

    def read(self, draft: Draft, fields: Fields) -> None:
        is_signed = bool(fields["opt_opd2_sign"]) or draft.is_float
        draft.__dict__.update(bias=near(fields, "opd2_addr"), bias_signed=is_signed)


@dataclass(frozen=True, kw_only=True)
class MatMul(ComputeInstruction):
    """`result[rows] = left[rows, depth] @ right[depth]`, all matrices ALIGNED, 8-bit or bf16.

    A matrix of r rows is a tensor (r, channels, 1, width): column k is in channel k // width. `left_split` and
    `result_split` are (channels, width); `right` is split like the result. Epilogue: with `multiplier`, the sum is
    requantized and `bias` (an address) is int32 in 4 rows of bytes; without it, the sum is shifted and `bias` is int16
    in 2 rows; for bf16 it is float32 in 2 rows of halves. `accumulate` adds the old 16-bit result << `left_shift`.
    """

    stem = "matmul"
    encoding = Encoding(
        Constant(tsk_typ=2),
        FLOAT,
        Tensor("left", "opd0"),
        Coded("partial", "ps32_md", int, PartialSum),
        flag("accumulate", "opt_res_add"),
        Number("rows", "res0_n"),
        extents("result_split", "res0", "cw"),
        Constant(res0_h=1),
        Tensor(
            "result",
            "res0",
            shape=lambda product: product.result_shape,
            planes=lambda product: product.partial or (product.accumulate and not product.is_float),
        ),
        extents("left_split", "opd0", "cw"),
        Extents("opd0", lambda product: (product.rows, 1), "nh"),
        Tensor("right", "opd1"),
        Number("depth", "opd1_n"),
        Extents("opd1", lambda product: (product.result_split[0], 1, product.last_width), "chw"),
        When(
            lambda product: product.accumulate and not product.is_float,
            Number("left_shift", "opt_left_shift"),
            otherwise=[Derived("opt_left_shift", lambda product: product.left_shift)],
        ),
        When(lambda product: not product.accumulate, Ignored("opt_left_shift")),
        REQUANTIZATION,
        When(
            lambda product: product.is_float,
            Derived("opt_right_shift", lambda product: product.shift),
            otherwise=[SHIFT],
        ),
        Present(
            "tsk_opd_num",
            ["bias"],
            _Bias(),
            Extents("opd2", lambda product: (1, *product.result_shape[1:])),
            Ignored("opd2_b_str"),
            value=3,
            absent=2,
            otherwise=[Ignored(*THIRD)],
        ),
        Derived("opt_shift_typ", lambda product: product.has_signs),
        flag("relu", "opt_relu"),
        When(lambda product: product.planes == 1, Ignored("res0_b_str")),
        Ignored("tsk_eu_typ", "opd0_ins_val", "opd0_ins_fp", *INPUT_STRIDES, *KERNEL_STRIDES, *THIRD_STRIDES),
    )

    rows: int
    depth: int
    result: Operand
    result_split: Pair
    left: Operand
    left_split: Pair
    right: Operand
    bias: int | None = None
    bias_signed: bool = True
    multiplier: int | None = None
    shift: int = 0
    accumulate: bool = False
    left_shift: int = 0
    relu: bool = False
    partial: PartialSum = PartialSum.OFF

    @property
    def is_float(self) -> bool:
        return self.left.dtype.is_float

    @property
    def result_shape(self) -> Shape4:
        """Extents of the result as a tensor."""
        return (self.rows, self.result_split[0], 1, self.result_split[1])

    @property
    def left_shape(self) -> Shape4:
        """Extents of the left matrix as a tensor."""
        return (self.rows, self.left_split[0], 1, self.left_split[1])

    @property
    def right_shape(self) -> Shape4:
        """Extents of the right matrix as a tensor."""
        return (self.depth, self.result_split[0], 1, self.result_split[1])

    @property
    def last_width(self) -> int:
        """Columns in the last channel of the left matrix."""
        channels, width = self.left_split
        return self.depth - width * (channels - 1)

    @property
    def bias_shape(self) -> Shape4:
        """Extents of the bias: rows of bytes, or of float32 halves."""
        return (2 if self.is_float or self.multiplier is None else 4, *self.result_shape[1:])

    @property
    def planes(self) -> int:
        """Number of planes in the result's area."""
        if self.partial is not PartialSum.OFF:
            return sum_planes(self.result.dtype)
        return 2 if self.accumulate and not self.is_float else self.result.dtype.planes

    def check(self) -> None:
        super().check()
        name = self.mnemonic()
        sources, bias_signed = (self.left.dtype, self.right.dtype), self.bias is not None and self.bias_signed
        check_result(name, self.result, self.relu, self.partial, sources, bias_signed)
        for what, operand in (("left", self.left), ("right", self.right), ("result", self.result)):
            check_multiple(name, f"{what} address", operand.offset, 16)
        check_near(name, "the right matrix", self.right.address, self.result)
        if self.bias is not None:
            check_near(name, "the bias", self.bias, self.result)
        channels, width = self.left_split
        if not width * (channels - 1) < self.depth <= width * channels:
            raise IllegalCommand(f"{name}: {self.depth} rows on the right, {channels} x {width} columns on the left")
        if self.partial.writes and (self.bias is not None or self.multiplier is not None or self.shift):
            raise IllegalCommand(f"{name}: partial sums take no bias, shift or multiplier; set them in the last step")
        if self.accumulate and (self.is_float or self.partial or self.multiplier is not None):
            raise IllegalCommand(f"{name}: accumulation works on shifted integer results only; use partial sums")

    def reads(self) -> Sequence[Region]:
        target = self.target
        regions = self.left.regions(self.left_shape, target) + self.right.regions(self.right_shape, target)
        if self.bias is not None:
            regions += Operand(self.bias, self._bias_kind).regions(self.bias_shape, target)
        if self.partial.reads or self.accumulate:
            regions += self.result.regions(self.result_shape, target, self.planes)
        return regions

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape, self.target, self.planes if self.partial.writes else 0)

    @property
    def _bias_kind(self) -> DType:
        return DType.BF16 if self.is_float else DType.UINT8

    def execute(self, machine: Machine) -> None:
        left = machine.load(self.left, self.left_shape).reshape(self.rows, -1)[:, : self.depth]
        right = machine.load(self.right, self.right_shape).reshape(self.depth, -1)
        before = load_sums(machine, self.result, self.result_shape) if self.partial.reads else None
        sums = self._float_sums(left, right, before) if self.is_float else self._integer_sums(left, right, before)
        sums = sums.reshape(self.result_shape)
        if self.partial.writes:
            store_sums(machine, self.result, self.result_shape, sums)
        else:
            machine.store(self.result, self.result_shape, self._finish(machine, sums))

    def _integer_sums(self, left: Array, right: Array, before: Array | None) -> Array:
        sums = exact_matmul(left, right, 128 if self.right.dtype.signed else 255)
        if before is not None:
            sums = sums + before.reshape(self.rows, -1)
        # A logical shift treats the sum as unsigned; without a shift, saturation treats it as signed.
        return sums.view(np.uint32) if self.shift and not self.has_signs else sums

    @property
    def has_signs(self) -> bool:
        """True when an operand is signed."""
        bias_signed = self.bias is not None and self.bias_signed
        return self.left.dtype.signed or self.right.dtype.signed or bias_signed

    def _float_sums(self, left: Array, right: Array, before: Array | None) -> Array:
        channels, width = self.left_split
        order = np.arange(channels * width).reshape(channels, width).T.reshape(-1)  # position first, then channel
        order = order[order < self.depth]
        start = None if before is None else before.reshape(self.rows, -1)
        return multiply_ordered(widen(left)[:, order], widen(right)[order], start)

    def _finish(self, machine: Machine, sums: Array) -> Array:
        dtype = self.result.dtype
        bias = None if self.bias is None else self._load_bias(machine)
        if dtype.is_float:
            return finish_float(sums, bias, self.relu)
        total = sums if bias is None else (sums + bias).astype(sums.dtype)
        if self.multiplier is not None:
            return requantize(wrap(total), self.multiplier, self.shift, self.relu, dtype)
        total = total.astype(np.int64)
        if self.accumulate:
            kind = DType.INT16 if dtype.signed else DType.UINT16
            step = self.result.step(self.result_shape, self.target)
            old = machine.load(Operand(self.result.address, kind, Layout.ALIGNED, step), self.result_shape)
            total += old.astype(np.int64) << self.left_shift
        return round_shift(total, self.shift, self.relu, dtype)

    def _load_bias(self, machine: Machine) -> Array:
        assert self.bias is not None
        (planes, *_), kind = self.bias_shape, self._bias_kind
        one = (1, *self.result_shape[1:])
        strides = natural_strides(self.target, one, kind.bytes)
        if self.is_float:
            return machine.load_halves(self.bias, one, strides, strides[0])
        if planes == 4:
            return machine.load_planes(self.bias, one, strides, strides[0], np.dtype(np.int32)).astype(np.int64)
        short = np.dtype(np.int16 if self.bias_signed else np.uint16)
        return machine.load_planes(self.bias, one, strides, strides[0], short).astype(np.int64)
