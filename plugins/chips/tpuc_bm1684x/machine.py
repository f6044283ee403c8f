"""The simulated memories of a BM1684X and strided access to them."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from tpuc.api import IllegalCommand
from tpuc_chip_parts.memory import LaneMemory, plain_view

from tpuc_bm1684x.isa.geometry import (
    DDR_BASE,
    L2_BASE,
    L2_BYTES,
    LANE_BYTES,
    LANES,
    LMEM_BASE,
    SMEM_BASE,
    SMEM_BYTES,
)
from tpuc_bm1684x.isa.types import Array, DType, Operand, Scalar, Shape4, Source, Strides, in_lmem
from tpuc_bm1684x.smem import initial_smem

UNWRITTEN = 0xDEADBEEF
"""The word that fills local memory before a program runs, as in the vendor's model. It exposes reads of unwritten
memory.
"""

Values: TypeAlias = Array


class Machine:
    """Byte arrays `lmem: [64, 262144]`, `smem`, `l2`, and `ddr`, which starts at address 0x1_0000_0000."""

    def __init__(self, ddr_bytes: int = 0) -> None:
        self._local = LaneMemory(LANES, LANE_BYTES)
        self.lmem = self._local.data
        self.reset()
        self.smem = initial_smem()
        self.l2 = np.zeros(0, np.uint8)
        self.ddr = np.zeros(ddr_bytes, np.uint8)

    # -- compute side ------------------------------------------------------------------------------------------------

    def load(self, operand: Operand, shape: Shape4) -> Values:
        """Read the tensor `operand: [n, c, h, w]`; a view where possible."""
        return self._local.load(operand.lane, operand.offset, shape, _steps(operand, shape), operand.dtype.numpy)

    def store(self, operand: Operand, shape: Shape4, values: Array) -> None:
        """Write `values`, broadcast to `shape`, to `operand`."""
        values = np.broadcast_to(values, shape).astype(operand.dtype.numpy, copy=False)
        self._local.store(operand.lane, operand.offset, shape, _steps(operand, shape), values)

    def fetch(self, source: Source, shape: Shape4) -> Values:
        """Read a tensor, or return the 0-d value of an immediate."""
        return source.value() if isinstance(source, Scalar) else self.load(source, shape)

    def static(self, address: int, count: int, dtype: DType) -> Values:
        """Read `count` elements of static memory at a command address."""
        offset = address - SMEM_BASE
        return np.ndarray((count,), dtype.numpy, self.smem.data, offset)

    # -- DMA side ----------------------------------------------------------------------------------------------------

    def read(self, address: int, shape: Shape4, strides: Strides, dtype: DType) -> Values:
        """Read a tensor at a DMA address. In local memory channels are distributed over lanes; elsewhere strides apply
        as they are.
        """
        if in_lmem(address):
            return self.load(Operand(address - LMEM_BASE, dtype, strides), shape)
        return self._flat(address, shape, strides, dtype)

    def write(
        self, address: int, shape: Shape4, strides: Strides, dtype: DType, values: Array, mask: int = (1 << LANES) - 1
    ) -> None:
        """Write a tensor at a DMA address; lanes whose bit in `mask` is cleared keep their contents."""
        if not in_lmem(address):
            self._flat(address, shape, strides, dtype)[...] = values
            return
        operand = Operand(address - LMEM_BASE, dtype, strides)
        if mask != (1 << LANES) - 1:
            lanes = (operand.lane + np.arange(shape[1])) % LANES
            keep = np.array([mask >> int(lane) & 1 for lane in lanes], bool)[None, :, None, None]
            values = np.where(keep, np.broadcast_to(values, shape), self.load(operand, shape))
        self.store(operand, shape, values)

    def _flat(self, address: int, shape: Shape4, strides: Strides, dtype: DType) -> Array:
        memory, offset = self._memory(address)
        n, c, h, w = (step * dtype.bytes for step in strides)
        return plain_view(memory, offset, shape, (n, c, h, w), dtype.numpy, f"{address:#x}")

    def _memory(self, address: int) -> tuple[Array, int]:
        if address >= DDR_BASE:
            return self.ddr, address - DDR_BASE
        if L2_BASE <= address < L2_BASE + L2_BYTES:
            if not self.l2.size:
                self.l2 = np.zeros(L2_BYTES, np.uint8)
            return self.l2, address - L2_BASE
        if SMEM_BASE <= address < SMEM_BASE + SMEM_BYTES:
            return self.smem, address - SMEM_BASE
        raise IllegalCommand(f"address {address:#x}: no memory there; use local memory, L2 or DDR")

    def reset(self, lmem_bytes: int = LANE_BYTES) -> None:
        """Fill the first `lmem_bytes` of every lane with `UNWRITTEN`. The caller resets DDR."""
        self.lmem.view(np.uint32)[:, : lmem_bytes // 4] = UNWRITTEN


def _steps(operand: Operand, shape: Shape4) -> Strides:
    """Strides in bytes."""
    n, c, h, w = (step * operand.dtype.bytes for step in operand.strides(shape))
    return (n, c, h, w)
