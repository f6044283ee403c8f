"""The memories of a simulated toy chip, and access to them by the operands of commands."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from tpuc.api import IllegalCommand

from toy_chip.operands import DDR_BASE, LANE_BYTES, LANES, VECTOR_BYTES, Layout, Operand, Pair, Strided, Window

Array: TypeAlias = npt.NDArray[Any]

UNWRITTEN = 0xA5
"""Fills local memory before a program, so that reading what nobody wrote shows in the result."""


class Machine:
    """`lmem: [8, 2048]` and `ddr`, which begins at `DDR_BASE`, as bytes."""

    def __init__(self, ddr_bytes: int = 0) -> None:
        self.lmem = np.full((LANES, LANE_BYTES), UNWRITTEN, np.uint8)
        self.ddr = np.zeros(ddr_bytes, np.uint8)

    # Local memory

    def lane_bytes(self, address: int, size: int, lanes: int = LANES) -> Array:
        """A view of `size` bytes of the first lanes."""
        if address < 0 or size < 1 or address + size > LANE_BYTES or not 0 < lanes <= LANES:
            raise IllegalCommand(
                f"{size} bytes at {address:#x} of {lanes} lanes: local memory has {LANES} lanes of {LANE_BYTES} bytes; "
                "move or split the tensor"
            )
        return self.lmem[:lanes, address : address + size]

    def _planes(self, operand: Operand) -> Array:
        """A view `[lane, n, slot, bytes of a plane]`."""
        step = VECTOR_BYTES if operand.layout is Layout.ALIGNED else operand.dtype.bytes
        if operand.address % step:
            raise IllegalCommand(f"{operand}: its address must be a multiple of {step}")
        lanes = self.lane_bytes(operand.address, operand.bytes_per_lane)
        return lanes.reshape(LANES, operand.shape[0], operand.slots, operand.plane_bytes)

    def read(self, operand: Operand) -> Array:
        """The values of a tensor, `[n, c, h, w]`."""
        n, c, h, w = operand.shape
        planes = self._planes(operand)[..., : h * w * operand.dtype.bytes]
        values = np.ascontiguousarray(planes.transpose(1, 2, 0, 3)).view(operand.dtype.numpy)
        return values.reshape(n, operand.slots * LANES, h, w)[:, :c]

    def write(self, operand: Operand, values: Array) -> None:
        """Store values, which must fit the element type; what lies between the planes stays as it is."""
        values = np.broadcast_to(values, operand.shape).astype(operand.dtype.numpy)
        planes = self._planes(operand)
        for slot in range(operand.slots):
            part = np.ascontiguousarray(values[:, slot * LANES : (slot + 1) * LANES].swapaxes(0, 1))
            rows = part.reshape(*part.shape[:2], -1).view(np.uint8)
            planes[: rows.shape[0], :, slot, : rows.shape[2]] = rows

    # DDR

    def ddr_bytes(self, address: int, size: int) -> Array:
        """A view of `size` bytes."""
        offset = address - DDR_BASE
        if offset < 0 or size < 1 or offset + size > self.ddr.size:
            end = DDR_BASE + self.ddr.size
            raise IllegalCommand(f"{size} bytes at {address:#x}: this program's DDR is {DDR_BASE:#x} to {end:#x}")
        return self.ddr[offset : offset + size]

    def strided(self, tensor: Strided) -> Array:
        """A view of a tensor in DDR."""
        size = tensor.dtype.bytes
        if tensor.address % size or min(tensor.shape) < 1 or min(tensor.strides) < 0:
            raise IllegalCommand(f"{tensor}: extents are positive, strides not negative, the address fits the elements")
        span = self.ddr_bytes(tensor.address, tensor.span_bytes)
        strides = tuple(stride * size for stride in tensor.strides)
        return np.ndarray(tensor.shape, tensor.dtype.numpy, span.data, 0, strides)


def windows(x: Array, window: Window, count: Pair, fill: float) -> Array:
    """The first `count` windows down and across the padded input: `[n, c, rows, columns, kh, kw]`."""
    top, left, bottom, right = window.pads
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=fill)
    if min(size - extent for size, extent in zip(padded.shape[2:], window.extents, strict=True)) < 0:
        raise IllegalCommand(f"window {window}: larger than its padded input of {padded.shape[2]}x{padded.shape[3]}")
    (sh, sw), (dh, dw) = window.strides, window.dilations
    taken = sliding_window_view(padded, window.extents, axis=(2, 3))[:, :, ::sh, ::sw, ::dh, ::dw]
    taken = taken[:, :, : count[0], : count[1]]
    if taken.shape[2:4] != count:
        raise IllegalCommand(f"window {window}: its input has {taken.shape[2:4]} positions, the result {count}")
    return taken
