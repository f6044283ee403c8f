"""DMA commands on matrices, fills and linear copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from tpuc.api import IllegalCommand, Region

from tpuc_cv183x.isa.command import DmaInstruction, FieldReader, check_multiple, format_dma_address
from tpuc_cv183x.isa.compression import Compression, stream_limit
from tpuc_cv183x.isa.dma import (
    Direction,
    Steps,
    decompress_at,
    default_steps,
    direction_of,
    dma_region,
    format_fields,
    read_address,
    read_format,
    read_steps,
    side_fields,
)
from tpuc_cv183x.isa.geometry import is_gmem
from tpuc_cv183x.isa.types import Array, DType, Pair, Shape4

if TYPE_CHECKING:
    from tpuc_cv183x.machine import Machine

_NEVER_MATTERS = frozenset({"int8_sign", "int8_rnd_mode", "wait_id_other_tdma", "wait_id_sdma"})


@dataclass(frozen=True, kw_only=True)
class MatrixCopy(DmaInstruction):
    """Load or store a matrix: in GMEM `rows` x `columns` with `row_stride` bytes (0: dense); in local memory a tensor
    (rows, channels, 1, width) with `split` = (channels, width) and `local_strides` n, c, h (None: ALIGNED).

    `transpose` (loads): the local matrix has `columns` rows. `compression`: as in `TensorCopy`, loads only.
    """

    ignored = _NEVER_MATTERS | {"const_val"}

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
        """Which way data go."""
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
        """Bytes from row to row in GMEM."""
        return self.row_stride or self.columns * self.dtype.bytes

    def local_steps(self) -> Steps:
        """Strides in local memory, default filled in."""
        return self.local_strides or default_steps(self._local, self.local_shape, self.dtype.bytes)

    def fields(self) -> dict[str, int]:
        loads = self.direction is Direction.LOAD
        near, far = ("dst", "src") if loads else ("src", "dst")
        remote_rows = (self.rows, self.rows, 1, self.columns)
        fields = {
            "trans_dir": int(self.direction),
            "sys_dtype": 1,
            "spec_func": int(self.transpose),
            "src_n": self.rows,
            **format_fields(self.dtype, self.dtype),
            **side_fields(near, self._local, self.local_shape, self.local_steps()),
            **side_fields(far, self._remote, remote_rows, (1, self.row_step, 1)),
        }
        return fields if self.compression is None else fields | self.compression.fields()

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        source, destination = read_address(fields, "src"), read_address(fields, "dst")
        near, far = ("dst", "src") if direction_of(source, destination) is Direction.LOAD else ("src", "dst")
        return cls(
            source=source,
            destination=destination,
            rows=fields["src_n"],
            columns=fields[f"{far}_w"],
            dtype=read_format(fields, "src"),
            split=(fields[f"{near}_c"], fields[f"{near}_w"]),
            row_stride=read_steps(fields, far)[1],
            local_strides=read_steps(fields, near),
            transpose=fields["spec_func"] == 1,
            compression=Compression.from_fields(fields),
        )

    def ignores(self, name: str) -> bool:
        far = "src" if self.direction is Direction.LOAD else "dst"
        plain = self.compression is None and name in Compression.names
        return (
            plain or super().ignores(name) or name in (f"{far}_n_stride", f"{far}_h_stride") or name.startswith("rsv")
        )

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
        return dma_region(self._remote, (1, self.rows, 1, self.columns), (0, self.row_step, 0), self.dtype.bytes)

    def _local_region(self) -> Region:
        return dma_region(self._local, self.local_shape, self.local_steps(), self.dtype.bytes)

    def reads(self) -> Sequence[Region]:
        return [self._remote_region() if self.direction is Direction.LOAD else self._local_region()]

    def writes(self) -> Sequence[Region]:
        return [self._local_region() if self.direction is Direction.LOAD else self._remote_region()]

    def describe(self) -> str:
        parts = [
            f"{self.mnemonic()} {format_dma_address(self.source)} -> {format_dma_address(self.destination)}",
            f"{self.rows}x{self.columns}:{self.dtype} split={self.split[0]}x{self.split[1]}",
        ]
        if self.row_step != self.columns * self.dtype.bytes:
            parts.append(f"row_stride={self.row_step}")
        if self.local_steps() != default_steps(self._local, self.local_shape, self.dtype.bytes):
            parts.append(f"local_strides={','.join(map(str, self.local_steps()))}")
        parts += ["transpose"] * self.transpose + ["compressed"] * (self.compression is not None)
        return " ".join(parts + [f"{name}={value}" for name, value in self.leftover if not self.ignores(name)])

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
        # What lies behind the last column of the last channel stays as it was.
        values = np.array(machine.read(self.destination, self.local_shape, (*steps, size), kind))
        values = values.reshape(rows, -1)
        values[:, :columns] = matrix
        machine.write(self.destination, self.local_shape, (*steps, size), values.reshape(rows, channels, 1, width))


@dataclass(frozen=True, kw_only=True)
class Fill(DmaInstruction):
    """Write one value (`value`: its bits) to a tensor in local memory or GMEM."""

    ignored = _NEVER_MATTERS | {"src_fmt", *Compression.names, "compress_en"}

    destination: int
    shape: Shape4
    dtype: DType
    value: int
    strides: Steps | None = None

    def mnemonic(self) -> str:
        return "dma.fill"

    def steps(self) -> Steps:
        """Strides, default filled in."""
        return self.strides or default_steps(self.destination, self.shape, self.dtype.bytes)

    def fields(self) -> dict[str, int]:
        return {
            "trans_dir": int(Direction.STORE if is_gmem(self.destination) else Direction.LOAD),
            "spec_func": 4,
            "const_val": self.value,
            "src_n": self.shape[0],
            **format_fields(self.dtype, self.dtype),
            **side_fields("dst", self.destination, self.shape, self.steps()),
        }

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        return cls(
            destination=read_address(fields, "dst"),
            shape=(fields["src_n"], fields["dst_c"], fields["dst_h"], fields["dst_w"]),
            dtype=read_format(fields, "dst"),
            value=fields["const_val"],
            strides=read_steps(fields, "dst"),
        )

    def ignores(self, name: str) -> bool:
        return super().ignores(name) or name.startswith(("src_", "rsv"))

    def reads(self) -> Sequence[Region]:
        return []

    def writes(self) -> Sequence[Region]:
        return [dma_region(self.destination, self.shape, self.steps(), self.dtype.bytes)]

    def describe(self) -> str:
        parts = [f"dma.fill {self.value:#x} -> {format_dma_address(self.destination)}"]
        parts.append("x".join(map(str, self.shape)) + f":{self.dtype}")
        if self.steps() != default_steps(self.destination, self.shape, self.dtype.bytes):
            parts.append(f"strides={','.join(map(str, self.steps()))}")
        return " ".join(parts + [f"{name}={value}" for name, value in self.leftover if not self.ignores(name)])

    def execute(self, machine: Machine) -> None:
        kind = np.dtype(np.uint16 if self.dtype.bytes == 2 else np.uint8)
        bits: Array = np.array(self.value & (0xFFFF if self.dtype.bytes == 2 else 0xFF), kind)
        values = np.broadcast_to(bits, self.shape)
        machine.write(self.destination, self.shape, (*self.steps(), self.dtype.bytes), values)


@dataclass(frozen=True, kw_only=True)
class LinearCopy(DmaInstruction):
    """Copy `size` bytes in a row; the side in local memory stays inside one lane."""

    source: int
    destination: int
    size: int

    def mnemonic(self) -> str:
        return "dma.linear"

    def fields(self) -> dict[str, int]:
        near: dict[str, int] = {}
        for name, address in (("src", self.source), ("dst", self.destination)):
            near |= side_fields(name, address, (1, 1, 1, 1), (1, 1, 1))
        return near | {
            "trans_dir": int(direction_of(self.source, self.destination)),
            "trans_fmt": 1,
            "src_n_stride": self.size,
        }

    @classmethod
    def from_fields(cls, fields: FieldReader) -> Self:
        return cls(
            source=read_address(fields, "src"), destination=read_address(fields, "dst"), size=fields["src_n_stride"]
        )

    def ignores(self, name: str) -> bool:
        return name in _NEVER_MATTERS or name.startswith(("src_", "dst_", "rsv"))

    def reads(self) -> Sequence[Region]:
        return [self._region(self.source)]

    def writes(self) -> Sequence[Region]:
        return [self._region(self.destination)]

    def _region(self, address: int) -> Region:
        return dma_region(address, (1, 1, 1, self.size), (0, 0, 0), 1)

    def describe(self) -> str:
        text = (
            f"dma.linear {format_dma_address(self.source)} -> {format_dma_address(self.destination)} {self.size} bytes"
        )
        return " ".join([text, *(f"{name}={value}" for name, value in self.leftover if not self.ignores(name))])

    def execute(self, machine: Machine) -> None:
        machine.bytes_at(self.destination, self.size)[:] = machine.bytes_at(self.source, self.size).copy()
