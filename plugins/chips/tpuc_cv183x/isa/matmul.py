"""Matrix multiplication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region

from tpuc_cv183x.isa.bf16 import multiply_ordered, widen
from tpuc_cv183x.isa.channels import INPUT_STRIDES, KERNEL_STRIDES, THIRD, THIRD_STRIDES, check_result
from tpuc_cv183x.isa.command import (
    ComputeInstruction,
    FieldReader,
    check_multiple,
    check_near,
    derived_fields,
    shape_fields,
)
from tpuc_cv183x.isa.finish import (
    PartialSum,
    finish_float,
    load_sums,
    requantise,
    round_shift,
    store_sums,
    sum_planes,
    wrap,
)
from tpuc_cv183x.isa.geometry import LANES
from tpuc_cv183x.isa.types import NEAR_MASK, Array, DType, Layout, Operand, Pair, Shape4, natural_strides, signed
from tpuc_cv183x.isa.windows import exact_matmul

if TYPE_CHECKING:
    from tpuc_cv183x.machine import Machine


def split_columns(columns: int, dtype: DType) -> Pair:
    """(channels, width): how the vendor spreads the columns of a matrix over the lanes (chip.md)."""
    unit = dtype.vector
    if columns < unit:
        return 1, columns
    width = unit * -(-columns // (LANES * unit))
    return -(-columns // width), width


@dataclass(frozen=True, kw_only=True)
class MatMul(ComputeInstruction):
    """`result[rows] = left[rows, depth] @ right[depth]`, all matrices ALIGNED, 8-bit or bf16.

    A matrix of r rows is a tensor (r, channels, 1, width): column k lies in channel k // width. `left_split` and
    `result_split` are (channels, width); `right` is split like the result. Finish: with `multiplier` the sum is
    requantised and `bias` (an address) is int32 in 4 rows of bytes; else it is shifted and `bias` is int16 in 2 rows;
    beside bf16 it is float32 in 2 rows of halves. `accumulate` adds the old 16-bit result << `left_shift`.
    """

    ignored = frozenset({*INPUT_STRIDES, *KERNEL_STRIDES, *THIRD_STRIDES, "tsk_eu_typ", "opd0_ins_val", "opd0_ins_fp"})

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

    def mnemonic(self) -> str:
        return "matmul"

    @property
    def is_float(self) -> bool:
        return self.left.dtype.is_float

    @property
    def result_shape(self) -> Shape4:
        """As a tensor."""
        return (self.rows, self.result_split[0], 1, self.result_split[1])

    @property
    def left_shape(self) -> Shape4:
        """As a tensor."""
        return (self.rows, self.left_split[0], 1, self.left_split[1])

    @property
    def right_shape(self) -> Shape4:
        """As a tensor."""
        return (self.depth, self.result_split[0], 1, self.result_split[1])

    @property
    def bias_shape(self) -> Shape4:
        """Rows of bytes, or of halves of float32."""
        return (2 if self.is_float or self.multiplier is None else 4, *self.result_shape[1:])

    @property
    def _planes(self) -> int:
        if self.partial is not PartialSum.OFF:
            return sum_planes(self.result.dtype)
        return 2 if self.accumulate and not self.is_float else self.result.dtype.planes

    def fields(self) -> dict[str, int]:
        name = self.mnemonic()
        channels, width = self.left_split
        fields = {
            "tsk_typ": 2,
            "opt_relu": int(self.relu),
            "opt_right_shift": self.shift,
            "opt_left_shift": self.left_shift,
            "opt_shift_typ": int(self._any_signed),
            "opt_res_add": int(self.accumulate),
            "ps32_md": int(self.partial),
            "opd_typ": int(self.is_float),
            "tsk_opd_num": 2,
        }
        fields |= derived_fields(name, "res0", self.result) | derived_fields(name, "opd0", self.left)
        fields |= derived_fields(name, "opd1", self.right)
        fields |= shape_fields("res0", self.result_shape) | shape_fields("opd0", self.left_shape)
        fields |= shape_fields("opd1", (self.depth, self.result_split[0], 1, self.depth - width * (channels - 1)))
        if self._planes > 1:
            fields["res0_b_str"] = self.result.step(self.result_shape)
        if self.multiplier is not None:
            fields |= {"opt_chl_quan": 1, "quan_m": self.multiplier}
        if self.bias is not None:
            fields |= {"tsk_opd_num": 3, "opd2_addr": self.bias & NEAR_MASK, "opt_opd2_sign": int(self.bias_signed)}
            fields |= shape_fields("opd2", (1, *self.result_shape[1:]))
        return fields

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        rows, channels, _, width = fields.shape("res0")
        left = fields.shape("opd0")
        partial = PartialSum(fields["ps32_md"])
        accumulate, kind = bool(fields["opt_res_add"]), fields.dtype("res0")
        planes = 2 if partial or accumulate or kind.planes > 1 else 1
        result = Operand(fields["res0_addr"], kind)
        if planes > 1 and fields["res0_b_str"] != result.step((rows, channels, 1, width)):
            result = Operand(result.address, kind, Layout.ALIGNED, fields["res0_b_str"])
        floats = fields["opd_typ"]
        return cls(
            rows=rows,
            depth=fields["opd1_n"],
            result=result,
            result_split=(channels, width),
            left=Operand(fields["opd0_addr"], fields.dtype("opd0")),
            left_split=(left[1], left[3]),
            right=Operand(fields.near("opd1"), fields.dtype("opd1")),
            bias=fields.near("opd2") if fields["tsk_opd_num"] == 3 else None,
            bias_signed=bool(fields["opt_opd2_sign"]) or bool(floats),
            multiplier=signed(fields["quan_m"], 32) if fields["opt_chl_quan"] else None,
            shift=0 if floats else fields["opt_right_shift"],
            accumulate=accumulate,
            left_shift=0 if floats or not accumulate else fields["opt_left_shift"],
            relu=bool(fields["opt_relu"]),
            partial=partial,
        )

    def unused_operands(self) -> tuple[str, ...]:
        unused = ["rsvd", *(THIRD if self.bias is None else ("opd2_b_str",))]
        if self._planes == 1:
            unused.append("res0_b_str")
        if self.multiplier is None:
            unused.append("quan_m")
        if not self.accumulate:
            unused.append("opt_left_shift")
        return tuple(unused)

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
            raise IllegalCommand(f"{name}: partial sums take no bias, shift or multiplier; give them to the last step")
        if self.accumulate and (self.is_float or self.partial or self.multiplier is not None):
            raise IllegalCommand(f"{name}: accumulation works on shifted integer results only; use partial sums")

    def reads(self) -> Sequence[Region]:
        regions = self.left.regions(self.left_shape) + self.right.regions(self.right_shape)
        if self.bias is not None:
            regions += Operand(self.bias, self._bias_kind).regions(self.bias_shape)
        if self.partial.reads or self.accumulate:
            regions += self.result.regions(self.result_shape, self._planes)
        return regions

    def writes(self) -> Sequence[Region]:
        return self.result.regions(self.result_shape, self._planes if self.partial.writes else 0)

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
        # A logical shift looks at the sum as unsigned; without a shift the saturation sees its sign.
        return sums.view(np.uint32) if self.shift and not self._any_signed else sums

    @property
    def _any_signed(self) -> bool:
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
            return requantise(wrap(total), self.multiplier, self.shift, self.relu, dtype)
        total = total.astype(np.int64)
        if self.accumulate:
            kind = DType.INT16 if dtype.signed else DType.UINT16
            step = self.result.step(self.result_shape)
            old = machine.load(Operand(self.result.address, kind, Layout.ALIGNED, step), self.result_shape)
            total += old.astype(np.int64) << self.left_shift
        return round_shift(total, self.shift, self.relu, dtype)

    def _load_bias(self, machine: Machine) -> Array:
        assert self.bias is not None
        (planes, *_), kind = self.bias_shape, self._bias_kind
        one = (1, *self.result_shape[1:])
        strides = natural_strides(one, kind.bytes)
        if self.is_float:
            return machine.load_halves(self.bias, one, strides, strides[0])
        if planes == 4:
            return machine.load_planes(self.bias, one, strides, strides[0], np.dtype(np.int32)).astype(np.int64)
        short = np.dtype(np.int16 if self.bias_signed else np.uint16)
        return machine.load_planes(self.bias, one, strides, strides[0], short).astype(np.int64)
