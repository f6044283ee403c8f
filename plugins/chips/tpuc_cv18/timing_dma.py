"""Cycles of DMA commands in each timing profile."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt
from tpuc.api import Engine, IllegalCommand, Instruction

from tpuc_cv18.isa.command import DmaInstruction
from tpuc_cv18.isa.compression import Compression
from tpuc_cv18.isa.dma import RotateChannels, Steps, TensorCopy, TransposeCW, TransposeNC
from tpuc_cv18.isa.dma_special import Fill, LinearCopy, MatrixCopy
from tpuc_cv18.isa.geometry import EU_BYTES, GMEM_BASE, is_gmem, round_up, split_gmem
from tpuc_cv18.isa.target import Profile
from tpuc_cv18.isa.types import Shape4

WORD_BYTES, BLOCK_BYTES, BURST_BYTES, PAGE_BYTES = 16, 64, 256, 4096
"""The bus moves words in bursts that do not cross a page; memory returns whole blocks."""
MOST_ROWS = 1 << 25
"""Largest number of rows of a transfer that are counted individually, in 256 MiB; only a damaged file states more."""
LOAD_GAP_BYTES = 16
"""A load reads through gaps up to this size instead of starting a new run."""


@dataclass(frozen=True)
class Side:
    """One side of a transfer: its address, extents and byte strides."""

    address: int
    shape: Shape4
    steps: Steps
    item_bytes: int
    max_gap: int = 0
    counts_elements: bool = False
    """The estimator counts the elements of a loaded row as bytes, so long bf16 rows never merge."""

    def runs(self) -> tuple[npt.NDArray[np.int64], int]:
        """Start addresses of the contiguous runs, and the size of a run in bytes, equal for all. Gaps up to `max_gap`
        are part of a run. Raises IllegalCommand for more than `MOST_ROWS` rows.
        """
        (n, c, h, w), (n_step, c_step, h_step) = self.shape, self.steps
        base = split_gmem(self.address)[1] + GMEM_BASE if is_gmem(self.address) else self.address
        row = w * self.item_bytes
        plane = h_step * (h - 1) + row
        seen = w if self.counts_elements else row
        rows_join = 0 <= h_step - seen <= self.max_gap
        if rows_join and 0 <= c_step - seen * h <= self.max_gap:
            return base + np.arange(n) * n_step, c_step * (c - 1) + plane
        rows = n * c if rows_join else n * c * h
        if rows > MOST_ROWS:
            raise IllegalCommand(
                f"a transfer of {rows:,} rows of {row} bytes is more than any network needs; is the file damaged?"
            )
        starts = np.add.outer(base + np.arange(n) * n_step, np.arange(c) * c_step).reshape(-1)
        if rows_join:
            return starts, plane
        return np.add.outer(starts, np.arange(h) * h_step).reshape(-1), row

    def words(self) -> int:
        """Number of 16-byte rows of local memory that it touches."""
        (n, c, h, w), size = self.shape, self.item_bytes
        if self.steps[2] == w * size or h == 1:
            return n * c * -(-(self.steps[2] * (h - 1) + w * size) // EU_BYTES)
        return n * c * h * -(-w * size // EU_BYTES)


@functools.lru_cache(maxsize=1 << 14)
def _burst_bytes(offset: int, size: int) -> int:
    """Bytes that memory transfers for one run that starts `offset` bytes after a page boundary."""
    start, end, total = offset // WORD_BYTES * WORD_BYTES, offset + size, 0
    while start < min(end, PAGE_BYTES):
        stop = min(start + BURST_BYTES, PAGE_BYTES, round_up(end, WORD_BYTES))
        total += (-(-stop // BLOCK_BYTES) - start // BLOCK_BYTES) * BLOCK_BYTES
        start = stop
    # From the next page on, all bursts are aligned.
    return total + round_up(max(0, end - max(start, PAGE_BYTES)), BLOCK_BYTES)


def memory_bytes(side: Side) -> int:
    """Bytes on the memory bus for one side of a transfer."""
    starts, size = side.runs()
    offsets, counts = np.unique(starts % PAGE_BYTES, return_counts=True)
    return sum(
        _burst_bytes(offset, size) * count for offset, count in zip(offsets.tolist(), counts.tolist(), strict=True)
    )


# -- what a command moves ----------------------------------------------------------------------------------------------


def _sides(instruction: Instruction) -> tuple[Side | None, Side]:
    """The source (None for a fill) and destination of a transfer."""
    match instruction:
        case RotateChannels():
            n, c, h, w = instruction.shape
            n_step, _, h_step = instruction.source_steps()
            source = Side(instruction.source, (n, w, h, c), (n_step, c, h_step), 1, LOAD_GAP_BYTES)
        case TensorCopy() | TransposeNC() | TransposeCW():
            size = instruction.dtype.bytes
            source = Side(instruction.source, instruction.shape, instruction.source_steps(), size, LOAD_GAP_BYTES, True)
        case MatrixCopy():
            return _matrix_sides(instruction)
        case Fill():
            size = instruction.dtype.bytes
            return None, Side(instruction.destination, instruction.shape, instruction.steps(), size)
        case LinearCopy():
            shape = (1, 1, 1, instruction.size)
            return Side(instruction.source, shape, (0, 0, 0), 1), Side(instruction.destination, shape, (0, 0, 0), 1)
        case _:
            raise TypeError(f"no cycles known for {type(instruction).__name__}")
    size = instruction.result_dtype.bytes
    return source, Side(instruction.destination, instruction.result_shape(), instruction.result_steps(), size)


def _matrix_sides(copy: MatrixCopy) -> tuple[Side, Side]:
    size = copy.dtype.bytes
    shape = (1, copy.rows, 1, copy.columns)
    near, far = (copy.local_shape, copy.local_steps(), size), (0, copy.row_step, copy.row_step)
    if is_gmem(copy.source):
        return Side(copy.source, shape, far, size, LOAD_GAP_BYTES, True), Side(copy.destination, *near)
    return Side(copy.source, *near), Side(copy.destination, shape, far, size)


def _is_local(source: Side | None, destination: Side) -> bool:
    return not is_gmem(destination.address) and source is not None and not is_gmem(source.address)


def vendor_transfer(instruction: DmaInstruction, profile: Profile) -> int:
    """Cycles of a transfer on the memory bus. Copies within local memory are counted as if they used the bus, fills of
    local memory as free.
    """
    source, destination = _sides(instruction)
    if source is not None and _is_local(source, destination):
        bus = max(source.words(), destination.words()) * WORD_BYTES
    else:
        bus = sum(memory_bytes(side) for side in (source, destination) if side is not None and is_gmem(side.address))
    cycles = int(bus / (profile.ddr_bytes_per_second / instruction.target.clock_hz))
    return cycles + start_cycles(instruction, profile)


# -- measured ----------------------------------------------------------------------------------------------------------

_MEASURED = {
    (True, False): (145, 10.2),
    (True, True): (488, 10.2),
    (False, False): (98, 10.5),
    (False, True): (186, 7.8),
}
"""(is load, is compressed): start cycles and bytes per cycle, fitted to a trace of ResNet-50 on a CV1835."""
_TRACE_HZ = 650_000_000
"""The clock of the traced chip."""


def measured_transfer(instruction: DmaInstruction) -> int:
    """Start cycles plus bytes over the measured rate. A compressed tensor counts with its uncompressed size."""
    source, destination = _sides(instruction)
    if source is not None and _is_local(source, destination):
        return max(source.words(), destination.words())
    start, rate = _measured(instruction, source)
    side = source if source is not None and is_gmem(source.address) else destination
    starts, size = side.runs()
    return start + int(starts.size * size / rate)


def _measured(instruction: DmaInstruction, source: Side | None) -> tuple[int, float]:
    loads = source is not None and is_gmem(source.address)
    compression: Compression | None = getattr(instruction, "compression", None)
    return _MEASURED[loads, compression is not None]


def start_cycles(instruction: DmaInstruction, profile: Profile) -> int:
    """Cycles of a transfer that do not depend on DDR bandwidth: the start time of the traced chip, scaled to this
    chip's clock.
    """
    if not (profile.is_measured or profile.counts_starts):
        return 0
    source, destination = _sides(instruction)
    if source is not None and _is_local(source, destination):
        return 0
    return _measured(instruction, source)[0] * instruction.target.clock_hz // _TRACE_HZ


def moved_bytes(instruction: Instruction) -> tuple[int, int]:
    """Bytes read from DDR and written to DDR, each element once; compressed tensors count with their uncompressed
    size.
    """
    if instruction.engine is not Engine.DMA:
        return 0, 0
    source, destination = _sides(instruction)
    read, written = (
        prod(side.shape) * side.item_bytes if side is not None and is_gmem(side.address) else 0
        for side in (source, destination)
    )
    return read, written
