"""Pack constants into the lane layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops.arrays import Array

from tpuc_cv18.isa.geometry import EU_BYTES, round_up

BLOCK_BYTES, BLOCK_WITH_BIAS_BYTES = 5, 9
"""Bytes per channel of requantization parameters: multiplier int32, shift uint8; optionally preceded by a bias
int32.
"""


def pack_filter(lanes: Lanes, filters: Array, depth: int) -> Array:
    """Pack filters `[oc, ic, kh, kw]` into bytes per lane: each channel is `[kh][kw][depth]`, with zero-padded input
    channels innermost.
    """
    oc, ic, kh, kw = filters.shape
    padded = np.zeros((oc, kh, kw, depth), filters.dtype)
    padded[..., :ic] = filters.transpose(0, 2, 3, 1)
    return lanes.by_lane(padded.reshape(oc, -1))


def pack_planes(lanes: Lanes, filters: Array) -> Array:
    """Pack depthwise filters `[c, taps]` into bytes per lane, each channel 16-byte aligned."""
    channels, taps = filters.shape
    size = round_up(taps * filters.itemsize, EU_BYTES) // filters.itemsize
    padded = np.zeros((channels, size), filters.dtype)
    padded[:, :taps] = filters
    return lanes.by_lane(padded)


def pack_bias(lanes: Lanes, bias: Array) -> Array:
    """Pack one float32 per channel into bytes per lane: the upper halves of all groups, then the lower halves."""
    halves = np.ascontiguousarray(bias, np.float32).reshape(-1, 1).view(np.uint16)
    return np.concatenate([lanes.by_lane(halves[:, 1:]), lanes.by_lane(halves[:, :1])], axis=1)


def channel_blocks(lanes: Lanes, bias: Array | None, multipliers: Sequence[int], shifts: Sequence[int]) -> Array:
    """Pack requantization parameters per lane, little endian and without gaps."""
    rows = np.zeros((len(multipliers), BLOCK_BYTES if bias is None else BLOCK_WITH_BIAS_BYTES), np.uint8)
    if bias is not None:
        rows[:, :4] = np.ascontiguousarray(bias, "<i4").reshape(-1, 1).view(np.uint8)
    rows[:, -5:-1] = np.asarray(multipliers, "<i4").reshape(-1, 1).view(np.uint8)
    rows[:, -1] = shifts
    return lanes.by_lane(rows)
