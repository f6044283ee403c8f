"""Gather and scatter within local memory (SG), and gather of whole rows (SGL)."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Encoding, Ignored, Number

from tpuc_bm1684x.isa.codecs import Tensor, element_type, extents, operation, plain_address
from tpuc_bm1684x.isa.command import ComputeInstruction
from tpuc_bm1684x.isa.types import Array, DType, Layout, Operand, Shape4, line_strides

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


class GatherOp(enum.IntEnum):
    """Sub-opcodes of SG."""

    LANE_GATHER = 0
    """pl_gather_d1coor: one index vector for all channels"""
    LANE_GATHER_2D = 1
    LANE_GATHER_RECORD = 2
    LANE_SCATTER = 3
    LANE_SCATTER_2D = 4
    GATHER = 5
    """pe_s_gather_d1coor: an index per element"""
    SCATTER = 6
    GATHER_M = 7
    MASK_SELECT = 8
    NONZERO = 9
    SCATTER_PP = 10
    LANE_GATHER_PER_W = 11
    LANE_SCATTER_PER_W = 12
    GATHER_HZD = 13
    SCATTER_HZD = 14
    MASK_SELECT_HZD = 15
    NONZERO_HZD = 16


_SCATTERS = (GatherOp.SCATTER, GatherOp.SCATTER_HZD)


def _index_layout(gather: Gather) -> Layout:
    return Layout.COMPACT if gather.operation is GatherOp.LANE_GATHER else Layout.ALIGNED


@dataclass(frozen=True, kw_only=True)
class Gather(ComputeInstruction):
    """`result[n, c, i] = table[c, index]` (SG); all tensors are aligned unless noted.

    GATHER, GATHER_HZD: `index` (n, c, 1, len) is 8- or 16-bit unsigned; `table` is (1, c, 1, entries), or with
    Layout.TABLE one row of entries present in every lane. LANE_GATHER: `index` is one compact 16-bit vector (1, len, 1,
    1). SCATTER, SCATTER_HZD: `result[n, c, index[n, c, i]] = table[c, i]`; other elements keep their values. `shape` is
    the result's; `index_size` is (channels, width) of the index.
    """

    table_name = "sSG"
    stem = "sg"
    encoding = Encoding(
        operation(GatherOp),
        extents("shape", "res0"),
        Tensor("result", "res0", sign=1),
        Tensor("table", "opd0", sign=1, layout=None),
        extents("table_size", "opd0", "hw"),
        Tensor("index", "opd1", sign=0, layout=_index_layout),
        extents("index_size", "opd1", "cw"),
        Ignored("opd2_addr", "opd2_const", "res1_addr", "opd3_addr", "opd3_const"),
    )

    operation: GatherOp = GatherOp.GATHER
    shape: Shape4
    result: Operand
    table: Operand
    table_size: tuple[int, int]
    """Height and width of one channel's table."""
    index: Operand
    index_size: tuple[int, int]

    def check(self) -> None:
        super().check()
        if self.operation not in (GatherOp.GATHER, GatherOp.GATHER_HZD, GatherOp.LANE_GATHER, *_SCATTERS):
            raise IllegalCommand(f"{self.mnemonic()}: the simulator does not support this operation; use GATHER")
        if self.index.dtype.bytes > 2 or self.index.dtype.is_float or self.table.dtype.bytes != self.result.dtype.bytes:
            raise IllegalCommand(
                f"{self.mnemonic()}: index {self.index.dtype}, table {self.table.dtype}, result {self.result.dtype}; "
                "use an 8- or 16-bit index and one type for table and result"
            )

    def _table_dims(self) -> Shape4:
        if self.operation in _SCATTERS:
            return (1, self.shape[1], 1, self.index_size[1])
        return (1, 1 if self._shared else self.shape[1], 1, self.table_size[0] * self.table_size[1])

    @property
    def _shared(self) -> bool:
        return self.table.layout == Layout.TABLE

    def _index_dims(self) -> Shape4:
        if self.operation in _SCATTERS:
            return (self.shape[0], self.shape[1], 1, self.index_size[1])
        if self.operation is GatherOp.LANE_GATHER:
            return (1, self.index_size[0], 1, 1)
        return (self.shape[0], self.shape[1], 1, self.shape[2] * self.shape[3])

    def _plain_table(self) -> Operand:
        return Operand(self.table.address, self.table.dtype) if self._shared else self.table

    def reads(self) -> Sequence[Region]:
        table = self._plain_table().region((1, self.shape[1], 1, self._table_dims()[3]), self.target)
        if self._shared:
            step = self._plain_table().region(self._table_dims(), self.target)
            table = Region("lmem", step.start, step.end, table.first_lane, table.end_lane)
        if self.operation in _SCATTERS:
            table = self.table.region(self._table_dims(), self.target)
        return [self.index.region(self._index_dims(), self.target), table]

    def writes(self) -> Sequence[Region]:
        return [self.result.region(self.shape, self.target)]

    def execute(self, machine: Machine) -> None:
        index = machine.load(self.index, self._index_dims()).astype(np.intp)
        dims = self._table_dims()
        if self.operation in _SCATTERS:
            self._scatter(machine, index)
            return
        if int(index.max()) >= dims[3]:
            raise IllegalCommand(
                f"{self.mnemonic()}: index {int(index.max())} in a table of {dims[3]}; keep indices inside the table"
            )
        table = machine.load(self._plain_table(), dims)
        if self._shared:
            value = table.reshape(-1).take(index)
        elif self.operation is GatherOp.LANE_GATHER:
            value = table[..., index.reshape(-1)]
        else:
            value = np.take_along_axis(table, index, axis=3)
        machine.store(self.result, self.shape, value.reshape(self.shape).view(self.result.dtype.numpy))

    def _scatter(self, machine: Machine, index: Array) -> None:
        n, c, h, w = self.shape
        if int(index.max()) >= h * w:
            raise IllegalCommand(f"{self.mnemonic()}: index {int(index.max())} in a result of {h * w}; keep it inside")
        flat = machine.load(self.result, self.shape).reshape(n, c, 1, h * w).copy()
        values = machine.load(self.table, self._table_dims())
        np.put_along_axis(flat, index, np.broadcast_to(values, index.shape), axis=3)
        machine.store(self.result, self.shape, flat.reshape(self.shape))


class GatherLinesOp(enum.IntEnum):
    """Sub-opcodes of SGL."""

    GATHER = 17
    SCATTER = 18


@dataclass(frozen=True, kw_only=True)
class GatherLines(ComputeInstruction):
    """`result[n, c, i, :] = table[c, index[n, c, i], :]` (SGL); table and result line-aligned, index aligned 16 bit."""

    table_name = "sSGL"
    stem = "sgl"
    encoding = Encoding(
        operation(GatherLinesOp),
        extents("shape", "res0"),
        element_type("dtype", "res0_prec"),
        plain_address("result", "res0"),
        plain_address("table", "opd0"),
        Number("table_rows", "opd0_h"),
        Number("table_layout", "opd0_str"),
        Tensor("index", "opd1", sign=0),
        Ignored("opd2_addr", "opd2_const", "opd3_const", "res1_addr"),
    )

    operation: GatherLinesOp = GatherLinesOp.GATHER
    shape: Shape4
    dtype: DType
    result: int
    table: int
    table_rows: int
    table_layout: int = 3
    index: Operand

    def check(self) -> None:
        super().check()
        if self.operation is not GatherLinesOp.GATHER or self.table_layout != 3:
            raise IllegalCommand(
                f"{self.mnemonic()}: the simulator gathers rows of per-channel tables only; use GATHER"
            )

    def lines(self, address: int, shape: Shape4) -> Operand:
        lane = address // self.target.lane_bytes
        return Operand(address, self.dtype, line_strides(shape, self.dtype.bytes, lane, self.target))

    def parts(self) -> tuple[tuple[Operand, Shape4], tuple[Operand, Shape4]]:
        n, c, h, w = self.shape
        table_dims = (1, c, self.table_rows, w)
        return (self.lines(self.table, table_dims), table_dims), (self.index, (n, c, 1, h))

    def reads(self) -> Sequence[Region]:
        return [operand.region(shape, self.target) for operand, shape in self.parts()]

    def writes(self) -> Sequence[Region]:
        return [self.lines(self.result, self.shape).region(self.shape, self.target)]

    def execute(self, machine: Machine) -> None:
        (table, table_dims), (index, index_dims) = self.parts()
        rows = machine.load(index, index_dims).astype(np.intp)[:, :, 0, :, None]
        if int(rows.max()) >= self.table_rows:
            raise IllegalCommand(f"{self.mnemonic()}: row {int(rows.max())} of {self.table_rows}; keep indices inside")
        source: Array = np.broadcast_to(machine.load(table, table_dims), (self.shape[0], *table_dims[1:]))
        value = np.take_along_axis(source, rows, axis=2)
        machine.store(self.lines(self.result, self.shape), self.shape, value)
