"""Pack constants into the layout of lanes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops.arrays import Array

from tpuc_cv18.isa.geometry import EU_BYTES, round_up

BLOCK_BYTES, BLOCK_WITH_BIAS_BYTES = 5, 9
"""Per-channel requantisation: multiplier int32, shift uint8; with a bias int32 before them."""


def pack_filter(lanes: Lanes, filters: Array, depth: int) -> Array:
    """`[oc, ic, kh, kw]` → bytes per lane, each channel as `[kh][kw][depth]`: input channels innermost, zero padded."""
    oc, ic, kh, kw = filters.shape
    padded = np.zeros((oc, kh, kw, depth), filters.dtype)
    padded[..., :ic] = filters.transpose(0, 2, 3, 1)
    return lanes.by_lane(padded.reshape(oc, -1))


def pack_planes(lanes: Lanes, filters: Array) -> Array:
    """`[c, taps]` → bytes per lane, each channel on its own 16 bytes (depthwise kernels)."""
    channels, taps = filters.shape
    size = round_up(taps * filters.itemsize, EU_BYTES) // filters.itemsize
    padded = np.zeros((channels, size), filters.dtype)
    padded[:, :taps] = filters
    return lanes.by_lane(padded)


def pack_bias(lanes: Lanes, bias: Array) -> Array:
    """float32 per channel → bytes per lane: the upper halves of all groups, then the lower ones."""
    halves = np.ascontiguousarray(bias, np.float32).reshape(-1, 1).view(np.uint16)
    return np.concatenate([lanes.by_lane(halves[:, 1:]), lanes.by_lane(halves[:, :1])], axis=1)


def channel_blocks(lanes: Lanes, bias: Array | None, multipliers: Sequence[int], shifts: Sequence[int]) -> Array:
    """Requantisation blocks per lane, little endian and without gaps."""
    rows = np.zeros((len(multipliers), BLOCK_BYTES if bias is None else BLOCK_WITH_BIAS_BYTES), np.uint8)
    if bias is not None:
        rows[:, :4] = np.ascontiguousarray(bias, "<i4").reshape(-1, 1).view(np.uint8)
    rows[:, -5:-1] = np.asarray(multipliers, "<i4").reshape(-1, 1).view(np.uint8)
    rows[:, -1] = shifts
    return lanes.by_lane(rows)
