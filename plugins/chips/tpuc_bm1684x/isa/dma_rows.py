"""DMA gather and scatter of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Constant, Draft, Encoding, FieldCodec, Fields, Ignored, Number

from tpuc_bm1684x.isa.command import DmaInstruction
from tpuc_bm1684x.isa.dma import (
    ADDRESSES,
    ALL_LANES,
    ELEMENT_TYPE,
    MASK,
    dma_address,
    dma_region,
    sizes,
    steps,
)
from tpuc_bm1684x.isa.types import Array, DType, Pair, Shape4, Strides

if TYPE_CHECKING:
    from tpuc_bm1684x.machine import Machine

Extents3 = tuple[int, int, int]
"""Channels, rows, elements per row."""


class _RowCounts(FieldCodec):
    """Codec of the extents of destination and index that do not follow from the source."""

    def write(self, instruction: IndexedRows, fields: dict[str, int]) -> None:
        fields["dst_csize"], fields["dst_hsize"], fields["dst_wsize"] = instruction.destination_size
        fields["index_csize"], fields["index_hsize"] = instruction.index_size

    def read(self, draft: Draft, fields: Fields) -> None:
        if not fields["stride_enable"] or MASK.number(fields) != ALL_LANES:
            raise IllegalCommand("indexed rows without strides or with a lane mask are not supported")
        channels, rows, elements = draft.source_size
        moved = rows if draft.scatters else fields["dst_hsize"]
        draft.__dict__["destination_size"] = (max(channels, fields["index_csize"]), fields["dst_hsize"], elements)
        draft.__dict__["index_size"] = (fields["index_csize"], moved)


@dataclass(frozen=True, kw_only=True)
class IndexedRows(DmaInstruction):
    """Base of row gather and scatter between DDR and local memory, indexed by unsigned 32-bit row numbers.

    Extents are (channels, rows, elements), strides (channel, row) in elements; a row is contiguous. A single channel of
    index or source is broadcast to all channels. The subclasses define out-of-range rows. Channels and elements are
    taken from source and index; the same fields of the destination, and the index's row count, are ignored.
    """

    encoding = Encoding(
        ADDRESSES,
        dma_address("index", "index"),
        Constant(stride_enable=1, localmem_mask_l32=ALL_LANES & 0xFFFFFFFF, localmem_mask_h32=ALL_LANES >> 32),
        ELEMENT_TYPE,
        sizes("source_size", "src", "chw"),
        steps("source_strides", "src", "ch"),
        _RowCounts(),
        steps("destination_strides", "dst", "ch"),
        steps("index_strides", "index", "ch"),
        Number("constant", "constant_value"),
        Ignored("nchw_copy", "localmem_mask_l32", "localmem_mask_h32", "constant_value"),
        Ignored("dst_csize", "dst_wsize", "index_hsize"),
    )
    scatters: ClassVar[bool] = False

    source: int
    source_size: Extents3
    source_strides: Pair
    destination: int
    destination_size: Extents3
    destination_strides: Pair
    index: int
    index_size: Pair
    """Channels and rows."""
    index_strides: Pair
    dtype: DType
    constant: int = 0
    """Bit pattern for out-of-range rows."""

    def check(self) -> None:
        super().check()
        for address, unit in ((self.source, self.dtype.bytes), (self.destination, self.dtype.bytes), (self.index, 4)):
            if address % unit:
                raise IllegalCommand(f"{self.mnemonic()}: {address:#x} is not a multiple of {unit} bytes")
        moved = self.source_size if self.scatters else self.destination_size
        channels = self.destination_size[0]
        if min(*self.source_size, *self.destination_size) < 1 or (
            self.source_size[2] != self.destination_size[2]
            or self.index_size[1] != moved[1]
            or self.index_size[0] not in (1, channels)
            or self.source_size[0] not in (1, channels)
        ):
            raise IllegalCommand(
                f"{self.mnemonic()}: source {self.source_size}, destination {self.destination_size} and index "
                f"{self.index_size} do not fit"
            )

    def _parts(self) -> tuple[tuple[Shape4, Strides], tuple[Shape4, Strides], tuple[Shape4, Strides]]:
        return (
            ((1, *self.source_size), (0, *self.source_strides, 1)),
            ((1, *self.destination_size), (0, *self.destination_strides, 1)),
            ((1, *self.index_size, 1), (0, *self.index_strides, 1)),
        )

    def reads(self) -> Sequence[Region]:
        source, _, index = self._parts()
        return [
            dma_region(self.target, self.source, *source, self.dtype),
            dma_region(self.target, self.index, *index, DType.INT32),
        ]

    def writes(self) -> Sequence[Region]:
        return [dma_region(self.target, self.destination, *self._parts()[1], self.dtype)]

    def execute(self, machine: Machine) -> None:
        (shape, strides), (target_shape, target_strides), (index_shape, index_strides) = self._parts()
        source = machine.read(self.source, shape, strides, self.dtype)[0]
        rows = machine.read(self.index, index_shape, index_strides, DType.INT32)[0, :, :, 0]
        numbers = np.ascontiguousarray(rows).view(np.uint32).astype(np.int64)
        channels = self.destination_size[0]
        source = np.broadcast_to(source, (channels, *source.shape[1:]))
        numbers = np.broadcast_to(numbers, (channels, numbers.shape[1]))
        result = self._moved(machine, source, numbers, (target_shape, target_strides))
        machine.write(self.destination, target_shape, target_strides, self.dtype, result[None])

    def _moved(self, machine: Machine, source: Array, numbers: Array, target: tuple[Shape4, Strides]) -> Array:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RowGather(IndexedRows):
    """`destination[c, i, :] = source[c, index[c, i], :]`, or `constant` for an out-of-range row (DMA_gather)."""

    table_name = "DMA_gather"
    stem = "dma.gather"

    def _moved(self, machine: Machine, source: Array, numbers: Array, target: tuple[Shape4, Strides]) -> Array:
        inside = numbers < self.source_size[1]
        rows = np.where(inside, numbers, 0)[..., None]
        result = np.take_along_axis(source, rows, axis=1)
        bits = np.array(self.constant & ((1 << 8 * self.dtype.bytes) - 1), f"u{self.dtype.bytes}")
        result[~inside] = bits.view(self.dtype.numpy)
        return result


@dataclass(frozen=True, kw_only=True)
class RowScatter(IndexedRows):
    """`destination[c, index[c, i], :] = source[c, i, :]` in row order (DMA_scatter). Out-of-range rows are skipped; all
    other destination rows keep their contents.
    """

    table_name = "DMA_scatter"
    stem = "dma.scatter"
    scatters = True

    def _moved(self, machine: Machine, source: Array, numbers: Array, target: tuple[Shape4, Strides]) -> Array:
        result = machine.read(self.destination, *target, self.dtype)[0].copy()
        for channel in range(numbers.shape[0]):
            inside = numbers[channel] < self.destination_size[1]
            result[channel, numbers[channel, inside]] = source[channel, inside]
        return result
