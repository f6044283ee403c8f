"""The simulated memories of a CV183x and strided access to them."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import as_strided
from tpuc.api import IllegalCommand

from tpuc_cv183x.isa.geometry import BASE_REGISTERS, LANE_BYTES, is_gmem, split_gmem
from tpuc_cv183x.isa.target import Target
from tpuc_cv183x.isa.types import Array, Operand, Scalar, Shape4, Source, Strides


class Machine:
    """Local memory `lmem: [lanes, 32768]` and eight GMEM areas, one behind each base register, all of bytes."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.lmem = np.zeros((target.lanes, LANE_BYTES), np.uint8)
        self.gmem: list[Array] = [np.zeros(0, np.uint8) for _ in range(BASE_REGISTERS)]

    # -- compute side ------------------------------------------------------------------------------------------------

    def _lanes(self, address: int, shape: Shape4, strides: Strides, dtype: np.dtype[np.generic]) -> Array:
        """A view `[n, groups, lanes, h, w]` of whole groups of channels; the channels start at the address's lane."""
        n, c, h, w = shape
        sn, sc, sh, sw = strides
        lane, offset = divmod(address, LANE_BYTES)
        lanes = self.target.lanes
        groups = self.target.groups_of(lane + c)
        last = offset + (n - 1) * sn + (groups - 1) * sc + (h - 1) * sh + (w - 1) * sw + dtype.itemsize
        if min(shape) < 1 or last > LANE_BYTES or lane >= lanes:
            raise IllegalCommand(
                f"tensor {'x'.join(map(str, shape))} at lane {lane}, byte {offset:#x}: outside local memory; "
                "move or split it"
            )
        flat = np.ndarray((), dtype, self.lmem.data, offset)
        return as_strided(flat, (n, groups, lanes, h, w), (sn, sc, LANE_BYTES, sh, sw))

    def load_raw(self, address: int, shape: Shape4, strides: Strides, dtype: np.dtype[np.generic]) -> Array:
        """A tensor of one plane; a view where possible."""
        view = self._lanes(address, shape, strides, dtype)
        n, groups, lanes, h, w = view.shape
        first = address // LANE_BYTES
        if groups == 1:
            return view[:, 0, first : first + shape[1]]
        return view.reshape(n, groups * lanes, h, w)[:, first : first + shape[1]]

    def store_raw(self, address: int, shape: Shape4, strides: Strides, values: Array) -> None:
        """Write a tensor of one plane; with strides of 0 the last element stays."""
        view = self._lanes(address, shape, strides, values.dtype)
        first, end = address // LANE_BYTES, address // LANE_BYTES + shape[1]
        _, groups, lanes, *_ = view.shape
        for group in range(groups):
            low, high = max(first, group * lanes), min(end, (group + 1) * lanes)
            view[:, group, low - group * lanes : high - group * lanes] = values[:, low - first : high - first]

    def load(self, operand: Operand, shape: Shape4) -> Array:
        """The values of a tensor; bf16 as bits."""
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
        """Integers whose bytes lie in planes, the lowest byte first."""
        result = np.empty((*shape, dtype.itemsize), np.uint8)
        for plane in range(dtype.itemsize):
            result[..., plane] = self.load_raw(address + plane * step, shape, strides, np.dtype(np.uint8))
        return result.view(dtype)[..., 0]

    def store_planes(self, address: int, shape: Shape4, strides: Strides, step: int, values: Array) -> None:
        """The opposite of `load_planes`."""
        split = np.ascontiguousarray(values)[..., None].view(np.uint8)
        for plane in range(split.shape[-1]):
            self.store_raw(address + plane * step, shape, strides, split[..., plane])

    def load_halves(self, address: int, shape: Shape4, strides: Strides, step: int) -> Array:
        """float32 whose upper 16 bits lie in the first plane, the lower ones in the second."""
        upper = self.load_raw(address, shape, strides, np.dtype(np.uint16)).astype(np.uint32)
        lower = self.load_raw(address + step, shape, strides, np.dtype(np.uint16))
        return (upper << np.uint32(16) | lower).view(np.float32)

    def store_halves(self, address: int, shape: Shape4, strides: Strides, step: int, values: Array) -> None:
        """The opposite of `load_halves`."""
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        self.store_raw(address, shape, strides, (bits >> np.uint32(16)).astype(np.uint16))
        self.store_raw(address + step, shape, strides, (bits & np.uint32(0xFFFF)).astype(np.uint16))

    def fetch(self, source: Source, shape: Shape4) -> Array:
        """A tensor, or the 0-d value of an immediate."""
        return source.value() if isinstance(source, Scalar) else self.load(source, shape)

    # -- DMA side ----------------------------------------------------------------------------------------------------

    def read(self, address: int, shape: Shape4, strides: Strides, dtype: np.dtype[np.generic]) -> Array:
        """A tensor at a DMA address: in local memory channels go over lanes, in GMEM all strides are plain."""
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
        memory = self.gmem[base]
        last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)) + dtype.itemsize
        if min(shape) < 1 or last > memory.size:
            raise IllegalCommand(
                f"tensor {'x'.join(map(str, shape))} at g{base}+{offset:#x} ends at {last:#x}, the memory behind this "
                f"base register has {memory.size:#x} bytes; correct the address or enlarge it"
            )
        return np.ndarray(shape, dtype, memory.data, offset, strides)

    def bytes_at(self, address: int, size: int) -> Array:
        """A view of `size` bytes of GMEM, or of one lane of local memory."""
        if is_gmem(address):
            return self._flat(address, (1, 1, 1, size), (0, 0, 0, 1), np.dtype(np.uint8)).reshape(-1)
        return self.load_raw(address, (1, 1, 1, size), (0, 0, 0, 1), np.dtype(np.uint8)).reshape(-1)
