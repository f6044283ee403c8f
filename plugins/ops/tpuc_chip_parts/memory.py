"""Strided access to the memories of a simulated chip; strides are in bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from tpuc.api import IllegalCommand, Shape4

if TYPE_CHECKING:
    from tpuc_ops.arrays import Array

DTypeOf: TypeAlias = "np.dtype[Any]"


class LaneMemory:
    """Local memory `data: [lanes, bytes of a lane]`: channels are distributed over the lanes; a slot is one channel of
    each lane.

    The channel stride is the distance between consecutive slots.
    """

    def __init__(self, lanes: int, lane_bytes: int) -> None:
        self.data: Array = np.zeros((lanes, lane_bytes), np.uint8)

    def _slots(self, lane: int, offset: int, shape: Shape4, strides: Shape4, dtype: DTypeOf) -> Array:
        """A view `[n, slots, lanes, h, w]` of whole slots; the channels start at `lane`."""
        lanes, lane_bytes = self.data.shape
        n, c, h, w = shape
        slots = -(-(lane + c) // lanes)
        if min(shape) < 1 or lane >= lanes or _end(offset, (n, slots, h, w), strides, dtype) > lane_bytes:
            raise IllegalCommand(
                f"tensor {'x'.join(map(str, shape))} at lane {lane}, byte {offset:#x}: outside local memory; "
                "move or split it"
            )
        sn, sc, sh, sw = strides
        first = np.ndarray((), dtype, self.data.data, offset)
        return as_strided(first, (n, slots, lanes, h, w), (sn, sc, lane_bytes, sh, sw))

    def load(self, lane: int, offset: int, shape: Shape4, strides: Shape4, dtype: DTypeOf) -> Array:
        """The tensor `[n, c, h, w]` that starts at `lane`, byte `offset`; a view where possible."""
        view = self._slots(lane, offset, shape, strides, dtype)
        n, slots, lanes, h, w = view.shape
        if slots == 1:
            return view[:, 0, lane : lane + shape[1]]
        return view.reshape(n, slots * lanes, h, w)[:, lane : lane + shape[1]]

    def store(self, lane: int, offset: int, shape: Shape4, strides: Shape4, values: Array) -> None:
        """Write `values: [n, c, h, w]`; with strides of 0 the last element wins."""
        view = self._slots(lane, offset, shape, strides, values.dtype)
        _, slots, lanes, *_ = view.shape
        end = lane + shape[1]
        for slot in range(slots):
            low, high = max(lane, slot * lanes), min(end, (slot + 1) * lanes)
            view[:, slot, low - slot * lanes : high - slot * lanes] = values[:, low - lane : high - lane]


def plain_view(memory: Array, offset: int, shape: Shape4, strides: Shape4, dtype: DTypeOf, where: str) -> Array:
    """A tensor in a memory without lanes; `where` names it in the error for access beyond the end."""
    end = _end(offset, shape, strides, dtype)
    if min(shape) < 1 or end > memory.size:
        raise IllegalCommand(
            f"tensor {'x'.join(map(str, shape))} at {where} ends at byte {end:#x} of a memory of "
            f"{memory.size:#x} bytes; correct the address or enlarge it"
        )
    return np.ndarray(shape, dtype, memory.data, offset, strides)


def _end(offset: int, shape: Shape4, strides: Shape4, dtype: DTypeOf) -> int:
    return offset + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True)) + dtype.itemsize
