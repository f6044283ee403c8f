"""DMA transfers of matrices and of contiguous elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Constant, Derived, Encoding, Ignored, Number, When, flag

from tpuc_bm1684x.isa.command import DmaInstruction
from tpuc_bm1684x.isa.dma import (
    ADDRESSES,
    ALL_LANES,
    ELEMENT_TYPE,
    MASK,
    dma_region,
    dma_space,
    steps,
)
from tpuc_bm1684x.isa.types import Array, DType, Pair, Shape4, Strides

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine


_UNUSED = ("hsize", "nsize", "csize", "wstride", "hstride")


def _sides(flat: str, local: str) -> Encoding:
    """Codec of a matrix on side `flat` and a tensor on side `local`."""
    return Encoding(
        Number("rows", f"{flat}_hsize"),
        Number("columns", f"{flat}_wsize"),
        Number("row_stride", f"{flat}_hstride"),
        Derived(f"{local}_nsize", lambda copy: copy.local_rows),
        Number("pieces", f"{local}_csize"),
        Number("width", f"{local}_wsize"),
        steps("local_strides", local, "nc"),
    )


@dataclass(frozen=True, kw_only=True)
class MatrixCopy(DmaInstruction):
    """Copy a matrix between DDR (`rows` x `columns`, row stride `row_stride` elements) and local memory (DMA_matrix).

    In local memory it is a tensor (rows, pieces, 1, width) with `width` columns per lane; `local_strides` are its N and
    C strides. With `transpose` (loads only) the local matrix is (columns, rows).
    """

    table_name = "DMA_matrix"
    encoding = Encoding(
        ADDRESSES,
        Constant(stride_enable=1),
        ELEMENT_TYPE,
        flag("transpose", "cmd_special_function"),
        When(lambda copy: copy.is_load, _sides("src", "dst"), otherwise=[_sides("dst", "src")]),
        MASK,
        Ignored(*(f"{side}_{name}" for side in ("src", "dst") for name in _UNUSED)),
    )

    source: int
    destination: int
    rows: int
    columns: int
    row_stride: int
    width: int
    pieces: int
    local_strides: Pair
    dtype: DType
    transpose: bool = False
    mask: int = ALL_LANES

    def mnemonic(self) -> str:
        return "dma.matrix_transpose" if self.transpose else "dma.matrix"

    @property
    def is_load(self) -> bool:
        """True when it writes local memory."""
        return self.target.in_lmem(self.destination)

    @property
    def local_rows(self) -> int:
        """Batch size (N) of the local tensor."""
        return self.columns if self.transpose else self.rows

    def check(self) -> None:
        super().check()
        if self.target.in_lmem(self.source) == self.is_load:
            raise IllegalCommand(f"{self.mnemonic()}: exactly one side must be local memory")
        if self.transpose and not self.is_load:
            raise IllegalCommand(f"{self.mnemonic()}: it cannot transpose from local memory; use TransposeCW")
        needed = self.rows if self.transpose else self.columns
        if (
            min(self.rows, self.columns, self.width, self.pieces) < 1
            or not 0 <= self.pieces * self.width - needed < self.width
        ):
            raise IllegalCommand(
                f"{self.mnemonic()}: {self.pieces} pieces of {self.width} do not hold {needed} columns; "
                f"use {-(-needed // max(self.width, 1))}"
            )

    def _local_dims(self) -> tuple[Shape4, Strides]:
        return (self.local_rows, self.pieces, 1, self.width), (*self.local_strides, self.width, 1)

    def _flat_dims(self) -> tuple[Shape4, Strides]:
        return (1, 1, self.rows, self.columns), (0, 0, self.row_stride, 1)

    def _sides(self) -> tuple[tuple[Shape4, Strides], tuple[Shape4, Strides]]:
        local, flat = self._local_dims(), self._flat_dims()
        return (flat, local) if self.is_load else (local, flat)

    def reads(self) -> Sequence[Region]:
        return [dma_region(self.target, self.source, *self._sides()[0], self.dtype)]

    def writes(self) -> Sequence[Region]:
        return [dma_region(self.target, self.destination, *self._sides()[1], self.dtype)]

    def execute(self, machine: Machine) -> None:
        (local_shape, local_strides), (flat_shape, flat_strides) = self._local_dims(), self._flat_dims()
        if not self.is_load:
            values = machine.read(self.source, local_shape, local_strides, self.dtype)
            values = values.reshape(self.rows, -1)[:, : self.columns]
            machine.write(self.destination, flat_shape, flat_strides, self.dtype, values)
            return
        matrix = machine.read(self.source, flat_shape, flat_strides, self.dtype)[0, 0]
        matrix = matrix.T if self.transpose else matrix
        whole, rest = divmod(matrix.shape[1], self.width)
        if whole:
            self._put(machine, matrix[:, : whole * self.width].reshape(self.local_rows, whole, 1, self.width), 0)
        if rest:  # the columns beyond the matrix keep their values
            self._put(machine, matrix[:, whole * self.width :].reshape(self.local_rows, 1, 1, rest), whole)

    def _put(self, machine: Machine, values: Array, piece: int) -> None:
        _, strides = self._local_dims()
        target = self.target
        lane, offset = divmod(self.destination - target.lmem_base, target.lane_bytes)
        slot, lane = divmod(lane + piece, target.lanes)
        address = target.lmem_base + lane * target.lane_bytes + offset + slot * strides[1] * self.dtype.bytes
        n, c, h, w = values.shape
        machine.write(address, (n, c, h, w), strides, self.dtype, values, self.mask)


@dataclass(frozen=True, kw_only=True)
class LinearCopy(DmaInstruction):
    """Copy `count` contiguous elements (DMA_general)."""

    table_name = "DMA_general"
    stem = "dma.linear"
    encoding = Encoding(
        ADDRESSES,
        ELEMENT_TYPE,
        Number("count", "move_length"),
        MASK,
        Ignored("stride_enable", "nchw_copy", "constant_value"),
    )

    source: int
    destination: int
    count: int
    dtype: DType
    mask: int = ALL_LANES

    def _region(self, address: int) -> Region:
        size = self.count * self.dtype.bytes
        if not self.target.in_lmem(address):
            space, start = dma_space(self.target, address)
            return Region(space, start, start + size)
        lane, offset = divmod(address - self.target.lmem_base, self.target.lane_bytes)
        return Region("lmem", offset, offset + size, lane, lane + 1)

    def reads(self) -> Sequence[Region]:
        return [self._region(self.source)]

    def writes(self) -> Sequence[Region]:
        return [self._region(self.destination)]

    def check(self) -> None:
        super().check()
        if self.count < 1:
            raise IllegalCommand("dma.linear: no elements; use at least 1")

    def execute(self, machine: Machine) -> None:
        shape, strides = (1, 1, 1, self.count), (0, 0, 0, 1)
        values = machine.read(self.source, shape, strides, self.dtype)
        machine.write(self.destination, shape, strides, self.dtype, np.array(values), self.mask)
