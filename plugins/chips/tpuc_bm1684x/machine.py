"""The simulated memories of a BM1684X and strided access to them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from tpuc.api import IllegalCommand
from tpuc_chip_parts.memory import LaneMemory, plain_view

from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.isa.types import Array, DType, Operand, Scalar, Shape4, Source, Strides
from tpuc_bm1684x.smem import initial_smem

UNWRITTEN = 0xDEADBEEF
"""The word that fills local memory before a program runs, as in the vendor's model. It exposes reads of unwritten
memory.
"""

Values: TypeAlias = Array
_ALL_LANES = (1 << 64) - 1


class Machine:
    """Byte arrays `lmem: [lanes, bytes]`, `smem`, `l2`, and `ddr`, which starts at the target's `ddr_base`. Where
    addresses have tags, `tagged` has the memory behind each base instead.
    """

    def __init__(self, ddr_bytes: int = 0, target: Target = BM1684X) -> None:
        self.target = target
        self._local = LaneMemory(target.lanes, target.lane_bytes)
        self.lmem = self._local.data
        self.reset()
        self.smem = initial_smem(target)
        self.l2 = np.zeros(0, np.uint8)
        self.ddr = np.zeros(ddr_bytes, np.uint8)
        self.tagged: list[Array] = [np.zeros(0, np.uint8) for _ in range(target.ddr_tags)]

    # -- compute side ------------------------------------------------------------------------------------------------

    def load(self, operand: Operand, shape: Shape4) -> Values:
        """Read the tensor `operand: [n, c, h, w]`; a view where possible."""
        place = divmod(operand.address, self.target.lane_bytes)
        return self._local.load(*place, shape, self._steps(operand, shape), operand.dtype.numpy)

    def store(self, operand: Operand, shape: Shape4, values: Array) -> None:
        """Write `values`, broadcast to `shape`, to `operand`."""
        values = np.broadcast_to(values, shape).astype(operand.dtype.numpy, copy=False)
        place = divmod(operand.address, self.target.lane_bytes)
        self._local.store(*place, shape, self._steps(operand, shape), values)

    def fetch(self, source: Source, shape: Shape4) -> Values:
        """Read a tensor, or return the 0-d value of an immediate."""
        return source.value() if isinstance(source, Scalar) else self.load(source, shape)

    def register(self, number: int) -> int:
        """The signed number in a register, 0 where nothing was written."""
        value = self.registers.get(number, 0)
        return value - ((value >> 31) << 32)

    def static(self, address: int, count: int, dtype: DType) -> Values:
        """Read `count` elements of static memory at a command address."""
        offset = address - self.target.smem_base
        return np.ndarray((count,), dtype.numpy, self.smem.data, offset)

    # -- DMA side ----------------------------------------------------------------------------------------------------

    def read(self, address: int, shape: Shape4, strides: Strides, dtype: DType) -> Values:
        """Read a tensor at a DMA address. In local memory channels are distributed over lanes; elsewhere strides apply
        as they are.
        """
        if self.target.in_lmem(address):
            return self.load(Operand(address - self.target.lmem_base, dtype, strides), shape)
        return self._flat(address, shape, strides, dtype)

    def write(
        self, address: int, shape: Shape4, strides: Strides, dtype: DType, values: Array, mask: int = _ALL_LANES
    ) -> None:
        """Write a tensor at a DMA address; lanes whose bit in `mask` is cleared keep their contents."""
        if not self.target.in_lmem(address):
            self._flat(address, shape, strides, dtype)[...] = values
            return
        operand = Operand(address - self.target.lmem_base, dtype, strides)
        if mask != _ALL_LANES:
            lanes = (operand.address // self.target.lane_bytes + np.arange(shape[1])) % self.target.lanes
            keep = np.array([mask >> int(lane) & 1 for lane in lanes], bool)[None, :, None, None]
            values = np.where(keep, np.broadcast_to(values, shape), self.load(operand, shape))
        self.store(operand, shape, values)

    def _flat(self, address: int, shape: Shape4, strides: Strides, dtype: DType) -> Array:
        memory, offset = self._memory(address)
        n, c, h, w = (step * dtype.bytes for step in strides)
        return plain_view(memory, offset, shape, (n, c, h, w), dtype.numpy, f"{address:#x}")

    def _memory(self, address: int) -> tuple[Array, int]:
        target = self.target
        if address >= target.ddr_base:
            if target.ddr_tags:
                tag, offset = target.split(address)
                return self.tagged[tag], offset
            return self.ddr, address - target.ddr_base
        if target.l2_base <= address < target.l2_base + target.l2_bytes:
            if not self.l2.size:
                self.l2 = np.zeros(target.l2_bytes, np.uint8)
            return self.l2, address - target.l2_base
        if target.smem_base <= address < target.smem_base + target.smem_bytes:
            return self.smem, address - target.smem_base
        raise IllegalCommand(f"address {address:#x}: no memory there; use local memory, L2 or DDR")

    def reset(self, lmem_bytes: int | None = None) -> None:
        """Fill the first `lmem_bytes` of every lane, by default all, with `UNWRITTEN`. The caller resets DDR."""
        self.registers: dict[int, int] = {}
        count = self.target.lane_bytes if lmem_bytes is None else lmem_bytes
        self.lmem.view(np.uint32)[:, : count // 4] = UNWRITTEN

    def _steps(self, operand: Operand, shape: Shape4) -> Strides:
        """Strides in bytes."""
        n, c, h, w = (step * operand.dtype.bytes for step in operand.strides(shape, self.target))
        return (n, c, h, w)
