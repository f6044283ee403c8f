"""Sizes and addresses of the BM1684X that instructions depend on, confirmed with the vendor's functional model."""

from __future__ import annotations

LANES = 64
LANE_BYTES = 0x40000
EU_BYTES = 64
BANK_BYTES = LANE_BYTES // 16
"""In one cycle, local memory can read one bank and write another."""
SMEM_BYTES = 0x4000
L2_BYTES = 0x1FB000

LMEM_BASE = 0x0800_0000
"""Base of local memory in DMA commands; compute commands count from 0."""
SMEM_BASE = 0x0900_0000
L2_BASE = 0x1000_0000
DDR_BASE = 0x1_0000_0000
DDR_END = 0x3_0000_0000
DDR_LIMIT_BYTES = 1 << 32
"""Upper limit of simulated memory. Files that need more are neither written nor read."""

RESET_INPUT = "reset-kept-states"
"""Name of the input of files that keep states: 1 in the first run, 0 in later ones."""

LMEM_BYTES = LANES * LANE_BYTES


def lmem(address: int) -> int:
    """The DMA address of the local-memory address `address` (lane * LANE_BYTES + offset)."""
    return LMEM_BASE + address


def lane_address(lane: int, offset: int) -> int:
    """The local-memory address of byte `offset` in `lane`."""
    return lane * LANE_BYTES + offset


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of `unit` that is at least `value`."""
    return -(-value // unit) * unit
