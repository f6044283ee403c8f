"""Transfers between lanes and from static memory (TRANSBC)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Derived, Encoding, Ignored

from tpuc_bm1684x.isa.codecs import element_type, extents, operation, plain_address
from tpuc_bm1684x.isa.command import ComputeInstruction
from tpuc_bm1684x.isa.types import DType, Layout, Operand, Shape4, line_strides

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class TransferOp(enum.IntEnum):
    """Sub-opcodes of TRANSBC."""

    TRANSPOSE_CW = 0
    """cw_ts: result line-aligned"""
    TRANSPOSE_WC = 1
    """wc_ts: result aligned"""
    COPY = 2
    """l_copy"""
    BROADCAST = 3
    """l_bc"""
    STATIC_BROADCAST = 4
    """s_bc"""
    STATIC_DISTRIBUTE = 5
    """s_distribute"""


_TRANSPOSE = (TransferOp.TRANSPOSE_CW, TransferOp.TRANSPOSE_WC)
_STATIC = (TransferOp.STATIC_BROADCAST, TransferOp.STATIC_DISTRIBUTE)


@dataclass(frozen=True, kw_only=True)
class LaneTransfer(ComputeInstruction):
    """Move data between lanes (TRANSBC). `shape` is the result's; both sides are aligned unless noted.

    TRANSPOSE_CW, TRANSPOSE_WC: source (n, w, h, c). COPY: to another start lane. BROADCAST: source (n, 1, h, w).
    STATIC_BROADCAST: `w` values of static memory to every channel. STATIC_DISTRIBUTE: one of `c` values to each
    channel, compact. `source` is an address in local memory or in static memory (0x0900_0000 and up).
    """

    table_name = "sTRANSBC"
    stem = "lanes"
    encoding = Encoding(
        operation(TransferOp),
        extents("shape", "res0"),
        element_type("dtype", "res0_prec"),
        plain_address("result", "res0"),
        plain_address("source", "opd0"),
        Derived("opd0_c", lambda transfer: transfer.source_shape[1]),
        Derived("opd0_w", lambda transfer: transfer.source_shape[3]),
        Ignored("opd0_c", "opd0_w"),
    )

    operation: TransferOp
    shape: Shape4
    dtype: DType
    result: int
    source: int

    @property
    def source_shape(self) -> Shape4:
        """Extents of the local or static tensor that is read."""
        n, c, h, w = self.shape
        match self.operation:
            case TransferOp.TRANSPOSE_CW | TransferOp.TRANSPOSE_WC:
                return (n, w, h, c)
            case TransferOp.BROADCAST:
                return (n, 1, h, w)
            case _:
                return self.shape

    def check(self) -> None:
        super().check()
        target = self.target
        lane, channels = self.result // target.lane_bytes, self.shape[1]
        if self.operation in (TransferOp.BROADCAST, *_STATIC) and lane + channels > target.lanes:
            raise IllegalCommand(
                f"{self.mnemonic()}: {channels} channels from lane {lane} extend beyond lane {target.lanes - 1}; "
                "split them"
            )
        base = target.smem_base
        if self.operation in _STATIC and not base <= self.source < base + target.smem_bytes:
            raise IllegalCommand(f"{self.mnemonic()}: source {self.source:#x} is not in static memory; add {base:#x}")

    @property
    def result_operand(self) -> Operand:
        """The result as an operand with its layout."""
        lane = self.result // self.target.lane_bytes
        match self.operation:
            case TransferOp.TRANSPOSE_CW:
                return Operand(self.result, self.dtype, line_strides(self.shape, self.dtype.bytes, lane, self.target))
            case TransferOp.STATIC_DISTRIBUTE:
                return Operand(self.result, self.dtype, Layout.COMPACT)
            case _:
                return Operand(self.result, self.dtype)

    def _static_count(self) -> int:
        return self.shape[3] if self.operation is TransferOp.STATIC_BROADCAST else self.shape[1]

    def reads(self) -> Sequence[Region]:
        if self.operation in _STATIC:
            start = self.source - self.target.smem_base
            return [Region("smem", start, start + self._static_count() * self.dtype.bytes)]
        return [Operand(self.source, self.dtype).region(self.source_shape, self.target)]

    def writes(self) -> Sequence[Region]:
        return [self.result_operand.region(self.shape, self.target)]

    def execute(self, machine: Machine) -> None:
        if self.operation in _STATIC:
            values = machine.static(self.source, self._static_count(), self.dtype)
            if self.operation is TransferOp.STATIC_DISTRIBUTE:
                values = values[:, None, None]
        else:
            values = machine.load(Operand(self.source, self.dtype), self.source_shape)
            if self.operation in _TRANSPOSE:
                values = values.transpose(0, 3, 2, 1)
        machine.store(self.result_operand, self.shape, values)
