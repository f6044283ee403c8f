"""Pack constants into the lane layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import PlacedTile, Scratch
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Operand
from tpuc_bm1684x.kernels.common import ACROSS_LANES

RECORD_BYTES = 64
"""A per-channel parameter record occupies one vector, whatever its size (isa notes, "per-channel requant")."""
RECORD_WORDS = 3
COMPACT_BYTES = 4 * RECORD_WORDS
"""Size of a record's content. Records are compact in DDR; `spread_records` moves each to its own vector."""
RECORD_ALIGNMENT = 4


slots_of, by_lane = ACROSS_LANES.slots_of, ACROSS_LANES.by_lane


def pack_filter(filters: Array, packing: int) -> Array:
    """Pack filters `[oc, ic, kh, kw]` into bytes per lane: each channel is `[ic / packing][kh][kw][packing]`, zero
    padded.
    """
    oc, ic, kh, kw = filters.shape
    pieces = -(-ic // packing)
    padded = np.zeros((oc, pieces * packing, kh, kw), filters.dtype)
    padded[:, :ic] = filters
    packed = padded.reshape(oc, pieces, packing, kh, kw).transpose(0, 1, 3, 4, 2)
    return by_lane(packed.reshape(oc, -1))


def requantize_records(multipliers: Sequence[int], right_shifts: Sequence[int], zero_point: int) -> Array:
    """Records {multiplier, left shift, zero point} of `COMPACT_BYTES` each, by lane."""
    records = np.zeros((len(multipliers), RECORD_WORDS), np.int32)
    records[:, 0] = multipliers
    records[:, 1] = -np.asarray(right_shifts, np.int32)
    records[:, 2] = zero_point
    return by_lane(records)


def float_records(scales: Sequence[float], offset: float) -> Array:
    """Records {scale, offset}, in the size of those of `requantize_records`, by lane."""
    records = np.zeros((len(scales), RECORD_WORDS), np.float32)
    records[:, 0] = scales
    records[:, 1] = offset
    return by_lane(records.view(np.int32))


def record_scratch(channels: int) -> Scratch:
    """Scratch buffer for the spread records of a tile's channels."""
    return Scratch("records", slots_of(channels) * RECORD_BYTES)


def spread_records(placed: PlacedTile, asm: Bm1684xAssembler) -> int:
    """Move each record of the constant `requantize` to its own vector; returns the address of the table."""
    table = placed.scratch["records"].address
    vector = RECORD_BYTES // 4
    asm.record(
        Arithmetic(
            operation=ArithmeticOp.COPY,
            shape=(1, placed.result.shape[1], 1, RECORD_WORDS),
            result=Operand(table, DType.INT32, (0, vector, vector, 1)),
            left=Operand(placed.constants["requantize"].address, DType.INT32, (0, RECORD_WORDS, RECORD_WORDS, 1)),
        )
    )
    return table
