"""The simulated memories of a chip and strided access to them."""

from __future__ import annotations

import numpy as np
from tpuc_chip_parts.memory import LaneMemory, plain_view

from tpuc_cv18.isa.geometry import BASE_REGISTERS, LANE_BYTES, is_gmem, split_gmem
from tpuc_cv18.isa.target import Target
from tpuc_cv18.isa.types import Array, Operand, Scalar, Shape4, Source, Strides


class Machine:
    """Byte arrays `lmem: [lanes, 32768]` and eight GMEM areas, one for each base register."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._local = LaneMemory(target.lanes, LANE_BYTES)
        self.lmem = self._local.data
        self.gmem: list[Array] = [np.zeros(0, np.uint8) for _ in range(BASE_REGISTERS)]

    # -- compute side ------------------------------------------------------------------------------------------------

    def load_raw(self, address: int, shape: Shape4, strides: Strides, dtype: np.dtype[np.generic]) -> Array:
        """Read a tensor of a single plane; a view where possible."""
        return self._local.load(*divmod(address, LANE_BYTES), shape, strides, dtype)

    def store_raw(self, address: int, shape: Shape4, strides: Strides, values: Array) -> None:
        """Write a tensor of a single plane."""
        self._local.store(*divmod(address, LANE_BYTES), shape, strides, values)

    def load(self, operand: Operand, shape: Shape4) -> Array:
        """Read the values of a tensor; bf16 as bits."""
        strides, dtype = operand.strides(shape, self.target), operand.dtype
        if dtype.planes == 1:
            return self.load_raw(operand.address, shape, strides, dtype.numpy)
        return self.load_planes(operand.address, shape, strides, operand.step(shape, self.target), dtype.numpy)

    def store(self, operand: Operand, shape: Shape4, values: Array) -> None:
        """Write values of the operand's type, broadcast to `shape`."""
        strides, dtype = operand.strides(shape, self.target), operand.dtype
        values = np.broadcast_to(values, shape)
        if dtype.planes == 1:
            self.store_raw(operand.address, shape, strides, values)
        else:
            self.store_planes(operand.address, shape, strides, operand.step(shape, self.target), values)

    def load_planes(
        self, address: int, shape: Shape4, strides: Strides, step: int, dtype: np.dtype[np.generic]
    ) -> Array:
        """Read integers stored as byte planes, least significant byte first."""
        result = np.empty((*shape, dtype.itemsize), np.uint8)
        for plane in range(dtype.itemsize):
            result[..., plane] = self.load_raw(address + plane * step, shape, strides, np.dtype(np.uint8))
        return result.view(dtype)[..., 0]

    def store_planes(self, address: int, shape: Shape4, strides: Strides, step: int, values: Array) -> None:
        """Inverse of `load_planes`."""
        split = np.ascontiguousarray(values)[..., None].view(np.uint8)
        for plane in range(split.shape[-1]):
            self.store_raw(address + plane * step, shape, strides, split[..., plane])

    def load_halves(self, address: int, shape: Shape4, strides: Strides, step: int) -> Array:
        """Read float32 values stored as two planes: the upper 16 bits first, then the lower 16 bits."""
        upper = self.load_raw(address, shape, strides, np.dtype(np.uint16)).astype(np.uint32)
        lower = self.load_raw(address + step, shape, strides, np.dtype(np.uint16))
        return (upper << np.uint32(16) | lower).view(np.float32)

    def store_halves(self, address: int, shape: Shape4, strides: Strides, step: int, values: Array) -> None:
        """Inverse of `load_halves`."""
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        self.store_raw(address, shape, strides, (bits >> np.uint32(16)).astype(np.uint16))
        self.store_raw(address + step, shape, strides, (bits & np.uint32(0xFFFF)).astype(np.uint16))

    def fetch(self, source: Source, shape: Shape4) -> Array:
        """Read a tensor, or return the 0-d value of an immediate."""
        return source.value() if isinstance(source, Scalar) else self.load(source, shape)

    # -- DMA side ----------------------------------------------------------------------------------------------------

    def read(self, address: int, shape: Shape4, strides: Strides, dtype: np.dtype[np.generic]) -> Array:
        """Read a tensor at a DMA address. In local memory channels are distributed over lanes; in GMEM strides apply as
        they are.
        """
        if is_gmem(address):
            return self._flat(address, shape, strides, dtype)
        return self.load_raw(address, shape, strides, dtype)

    def write(self, address: int, shape: Shape4, strides: Strides, values: Array) -> None:
        """Write a tensor at a DMA address."""
        if is_gmem(address):
            self._flat(address, shape, strides, values.dtype)[...] = values
        else:
            self.store_raw(address, shape, strides, values)

    def _flat(self, address: int, shape: Shape4, strides: Strides, dtype: np.dtype[np.generic]) -> Array:
        base, offset = split_gmem(address)
        return plain_view(self.gmem[base], offset, shape, strides, dtype, f"g{base}+{offset:#x}")

    def bytes_at(self, address: int, size: int) -> Array:
        """A view of `size` bytes of GMEM, or of one lane of local memory."""
        if is_gmem(address):
            return self._flat(address, (1, 1, 1, size), (0, 0, 0, 1), np.dtype(np.uint8)).reshape(-1)
        return self.load_raw(address, (1, 1, 1, size), (0, 0, 0, 1), np.dtype(np.uint8)).reshape(-1)
