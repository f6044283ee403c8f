"""Pack constants into the lane layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import PlacedTile, Scratch
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Operand
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import lanes_of

RECORD_BYTES = 64
"""A per-channel parameter record occupies one vector, whatever its size (isa notes, "per-channel requant")."""
RECORD_WORDS = 3
COMPACT_BYTES = 4 * RECORD_WORDS
"""Size of a record's content. Records are compact in DDR; `spread_records` moves each to its own vector."""
RECORD_ALIGNMENT = 4


def pack_filter(filters: Array, packing: int, target: Target = BM1684X) -> Array:
    """Pack filters `[oc, ic, kh, kw]` into bytes per lane: each channel is `[ic / packing][kh][kw][packing]`, zero
    padded.
    """
    oc, ic, kh, kw = filters.shape
    pieces = -(-ic // packing)
    padded = np.zeros((oc, pieces * packing, kh, kw), filters.dtype)
    padded[:, :ic] = filters
    packed = padded.reshape(oc, pieces, packing, kh, kw).transpose(0, 1, 3, 4, 2)
    return lanes_of(target).by_lane(packed.reshape(oc, -1))


def record_bytes(target: Target) -> int:
    """Size of a record in DDR."""
    return 8 if target.has_compact_records else COMPACT_BYTES


def record_alignment(target: Target) -> int:
    """Alignment of records in local memory."""
    return 8 if target.has_compact_records else RECORD_ALIGNMENT


def requantize_records(
    multipliers: Sequence[int], right_shifts: Sequence[int], zero_point: int, target: Target = BM1684X
) -> Array:
    """Records {multiplier, left shift, zero point} of `record_bytes` each, by lane."""
    if target.has_compact_records:
        pairs = np.zeros((len(multipliers), 2), np.int64)
        pairs[:, 0] = multipliers
        pairs[:, 1] = -np.asarray(right_shifts, np.int64) & 0xFF | (zero_point & 0xFFFF) << 16
        return lanes_of(target).by_lane(pairs.astype(np.uint32))
    records = np.zeros((len(multipliers), RECORD_WORDS), np.int32)
    records[:, 0] = multipliers
    records[:, 1] = -np.asarray(right_shifts, np.int32)
    records[:, 2] = zero_point
    return lanes_of(target).by_lane(records)


def float_records(scales: Sequence[float], offset: float, target: Target = BM1684X) -> Array:
    """Records {scale, offset}, in the size of those of `requantize_records`, by lane."""
    records = np.zeros((len(scales), record_bytes(target) // 4), np.float32)
    records[:, 0] = scales
    records[:, 1] = offset
    return lanes_of(target).by_lane(records.view(np.int32))


def record_scratch(channels: int, target: Target = BM1684X) -> Sequence[Scratch]:
    """Scratch buffer for the spread records of a tile's channels; none where commands read them compact."""
    if target.has_compact_records:
        return ()
    return (Scratch("records", lanes_of(target).slots_of(channels) * RECORD_BYTES),)


def spread_records(placed: PlacedTile, asm: Bm1684xAssembler) -> int:
    """Move each record of the constant `requantize` to its own vector; returns the address of the table."""
    if asm.target.has_compact_records:
        return placed.constants["requantize"].address
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
