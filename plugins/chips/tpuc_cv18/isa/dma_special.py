"""DMA commands for matrices, fills and linear copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from tpuc.api import IllegalCommand, Region
from tpuc.api.encoding import Constant, Defaulted, Derived, Encoding, Ignored, Number, Numbers, When, flag

from tpuc_cv18.isa.codecs import Extents, extents
from tpuc_cv18.isa.command import DmaInstruction, check_multiple, format_direction, format_dma_address
from tpuc_cv18.isa.compression import COMPRESSION, COMPRESSION_FIELDS, Compression, stream_limit
from tpuc_cv18.isa.dma import (
    ADDRESSES,
    Address,
    Direction,
    ElementFormat,
    Steps,
    channel_step,
    decompress_at,
    default_steps,
    direction_of,
    dma_region,
    strides,
)
from tpuc_cv18.isa.geometry import is_gmem
from tpuc_cv18.isa.types import Array, DType, Pair, Shape4

if TYPE_CHECKING:
    from tpuc_cv18.machine import Machine

_NEVER_MATTERS = Ignored("int8_sign", "int8_rnd_mode", "wait_id_other_tdma", "wait_id_sdma")


def _sides(near: str, far: str) -> Encoding:
    """Codec of the tensor on the local side `near` and the matrix on the GMEM side `far`."""
    return Encoding(
        Number("columns", f"{far}_w"),
        Extents(far, lambda copy: (copy.rows, 1), "ch"),
        Constant(**{f"{far}_n_stride": 1, f"{far}_h_stride": 1, f"{near}_h": 1}),
        extents("split", near, "cw"),
        ElementFormat("dtype", "src_fmt"),
        flag("transpose", "spec_func"),
        Defaulted("row_stride", channel_step("row_stride", far), lambda copy: copy.columns * copy.dtype.bytes, none=0),
        strides("local_strides", near, lambda copy: copy.default_local_steps()),
        Ignored(f"{far}_n_stride", f"{far}_h_stride"),
    )


@dataclass(frozen=True, kw_only=True)
class MatrixCopy(DmaInstruction):
    """Load or store a matrix. In GMEM it is `rows` x `columns` with row stride `row_stride` bytes (0: dense). In local
    memory it is a tensor (rows, channels, 1, width), where `split` is (channels, width) and `local_strides` are n,
    c, h (None: ALIGNED).

    `transpose` (loads): the local matrix has `columns` rows. `compression`: as in `TensorCopy`, loads only.
    """

    encoding = Encoding(
        ADDRESSES,
        Constant(sys_dtype=1),
        Number("rows", "src_n"),
        When(lambda copy: copy.direction is Direction.LOAD, _sides("dst", "src"), otherwise=[_sides("src", "dst")]),
        Derived("dst_fmt", lambda copy: copy.dtype.bytes),
        COMPRESSION,
        _NEVER_MATTERS,
        Ignored("const_val"),
    )

    source: int
    destination: int
    rows: int
    columns: int
    dtype: DType
    split: Pair
    row_stride: int = 0
    local_strides: Steps | None = None
    transpose: bool = False
    compression: Compression | None = None

    def mnemonic(self) -> str:
        return "dma.matrix." + self.direction.name.lower()

    @property
    def direction(self) -> Direction:
        """The direction of the transfer."""
        return direction_of(self.source, self.destination)

    @property
    def _local(self) -> int:
        return self.destination if self.direction is Direction.LOAD else self.source

    @property
    def _remote(self) -> int:
        return self.source if self.direction is Direction.LOAD else self.destination

    @property
    def local_size(self) -> Pair:
        """Rows and columns of the local matrix."""
        return (self.columns, self.rows) if self.transpose else (self.rows, self.columns)

    @property
    def local_shape(self) -> Shape4:
        """The local matrix as a tensor."""
        return (self.local_size[0], self.split[0], 1, self.split[1])

    @property
    def row_step(self) -> int:
        """Row stride in GMEM in bytes."""
        return self.row_stride or self.columns * self.dtype.bytes

    def default_local_steps(self) -> Steps:
        """Default strides in local memory."""
        return default_steps(self.target, self._local, self.local_shape, self.dtype.bytes)

    def local_steps(self) -> Steps:
        """Strides in local memory with the default filled in."""
        return self.local_strides or self.default_local_steps()

    def check(self) -> None:
        super().check()
        name, (channels, width) = self.mnemonic(), self.split
        if self.direction not in (Direction.LOAD, Direction.STORE):
            raise IllegalCommand(f"{name}: a matrix goes between GMEM and local memory only")
        if not width * (channels - 1) < self.local_size[1] <= width * channels:
            raise IllegalCommand(
                f"{name}: {self.local_size[1]} columns do not fill {channels} channels of {width}; correct the split"
            )
        if self.transpose and self.dtype.bytes > 1:
            raise IllegalCommand(f"{name}: only bytes can be transposed on the way; use tensors")
        if (self.transpose or self.compression) and self.direction is not Direction.LOAD:
            raise IllegalCommand(f"{name}: a stored matrix is neither transposed nor compressed; use a tensor")
        if self.compression is not None:
            check_multiple(name, "compressed address", self.source, 16)

    def _remote_region(self) -> Region:
        if self.compression is not None:
            return Region("gmem", self.source, self.source + stream_limit(self.rows * self.columns, self.dtype.bytes))
        return dma_region(
            self.target, self._remote, (1, self.rows, 1, self.columns), (0, self.row_step, 0), self.dtype.bytes
        )

    def _local_region(self) -> Region:
        return dma_region(self.target, self._local, self.local_shape, self.local_steps(), self.dtype.bytes)

    def reads(self) -> Sequence[Region]:
        return [self._remote_region() if self.direction is Direction.LOAD else self._local_region()]

    def writes(self) -> Sequence[Region]:
        return [self._local_region() if self.direction is Direction.LOAD else self._remote_region()]

    def details(self) -> list[str]:
        parts = [
            format_direction(self.source, self.destination),
            f"{self.rows}x{self.columns}:{self.dtype} split={self.split[0]}x{self.split[1]}",
        ]
        if self.row_step != self.columns * self.dtype.bytes:
            parts.append(f"row_stride={self.row_step}")
        if self.local_steps() != self.default_local_steps():
            parts.append(f"local_strides={','.join(map(str, self.local_steps()))}")
        return parts + ["transpose"] * self.transpose + ["compressed"] * (self.compression is not None)

    def execute(self, machine: Machine) -> None:
        size, kind = self.dtype.bytes, self.dtype.numpy
        remote = ((1, 1, self.rows, self.columns), (0, 0, self.row_step, size))
        (rows, channels, _, width), steps = self.local_shape, self.local_steps()
        columns = self.local_size[1]
        if self.direction is Direction.STORE:
            values = machine.read(self.source, self.local_shape, (*steps, size), kind)
            machine.write(self.destination, *remote, values.reshape(rows, -1)[:, :columns].reshape(remote[0]))
            return
        if self.compression is None:
            matrix = machine.read(self.source, *remote, kind).reshape(self.rows, self.columns)
        else:
            matrix = decompress_at(machine, self.source, self.rows * self.columns, self.dtype)
            matrix = matrix.reshape(self.rows, self.columns)
        if self.transpose:
            matrix = matrix.T
        # Elements after the last column of the last channel keep their values.
        values = np.array(machine.read(self.destination, self.local_shape, (*steps, size), kind))
        values = values.reshape(rows, -1)
        values[:, :columns] = matrix
        machine.write(self.destination, self.local_shape, (*steps, size), values.reshape(rows, channels, 1, width))


@dataclass(frozen=True, kw_only=True)
class Fill(DmaInstruction):
    """Write one value (`value`: its bit pattern) to a tensor in local memory or GMEM."""

    stem = "dma.fill"
    encoding = Encoding(
        Constant(spec_func=4),
        Derived("trans_dir", lambda fill: Direction.STORE if is_gmem(fill.destination) else Direction.LOAD),
        Address("destination", "dst"),
        Numbers("shape", ("src_n", "dst_c", "dst_h", "dst_w")),
        ElementFormat("dtype", "dst_fmt"),
        Derived("src_fmt", lambda fill: fill.dtype.bytes),
        Number("value", "const_val"),
        strides("strides", "dst", lambda fill: fill.default_steps()),
        _NEVER_MATTERS,
        Ignored("src_*", "compress_en", *COMPRESSION_FIELDS),
    )

    destination: int
    shape: Shape4
    dtype: DType
    value: int
    strides: Steps | None = None

    def default_steps(self) -> Steps:
        """Default strides."""
        return default_steps(self.target, self.destination, self.shape, self.dtype.bytes)

    def steps(self) -> Steps:
        """Strides with the default filled in."""
        return self.strides or self.default_steps()

    def reads(self) -> Sequence[Region]:
        return []

    def writes(self) -> Sequence[Region]:
        return [dma_region(self.target, self.destination, self.shape, self.steps(), self.dtype.bytes)]

    def details(self) -> list[str]:
        parts = [f"{self.value:#x} -> {format_dma_address(self.destination)}"]
        parts.append("x".join(map(str, self.shape)) + f":{self.dtype}")
        if self.steps() != self.default_steps():
            parts.append(f"strides={','.join(map(str, self.steps()))}")
        return parts

    def execute(self, machine: Machine) -> None:
        kind = np.dtype(np.uint16 if self.dtype.bytes == 2 else np.uint8)
        bits: Array = np.array(self.value & (0xFFFF if self.dtype.bytes == 2 else 0xFF), kind)
        values = np.broadcast_to(bits, self.shape)
        machine.write(self.destination, self.shape, (*self.steps(), self.dtype.bytes), values)


@dataclass(frozen=True, kw_only=True)
class LinearCopy(DmaInstruction):
    """Copy `size` contiguous bytes; the side in local memory stays within one lane."""

    stem = "dma.linear"
    encoding = Encoding(
        ADDRESSES,
        Constant(trans_fmt=1),
        Number("size", "src_n_stride"),
        _NEVER_MATTERS,
        Ignored("src_*", "dst_*"),
    )

    source: int
    destination: int
    size: int

    @property
    def direction(self) -> Direction:
        """The direction of the transfer."""
        return direction_of(self.source, self.destination)

    def reads(self) -> Sequence[Region]:
        return [self._region(self.source)]

    def writes(self) -> Sequence[Region]:
        return [self._region(self.destination)]

    def _region(self, address: int) -> Region:
        return dma_region(self.target, address, (1, 1, 1, self.size), (0, 0, 0), 1)

    def details(self) -> list[str]:
        return [f"{format_direction(self.source, self.destination)} {self.size} bytes"]

    def execute(self, machine: Machine) -> None:
        machine.bytes_at(self.destination, self.size)[:] = machine.bytes_at(self.source, self.size).copy()
