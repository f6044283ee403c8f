"""Sizes and addresses of all CV18xx chips (isa notes, chip.md: verified on the functional model)."""

from __future__ import annotations

LANE_BYTES = 1 << 15
EU_BYTES = 16
"""A lane handles 16 bytes per cycle: 16 int8 or 8 bf16 elements."""
REQUANTISE_LEAST = 16
"""Cycles that a vector takes at least that is requantised per channel."""
GMEM_BASE = 1 << 32
"""What a descriptor adds to an offset in GMEM."""
MEMORY_LIMIT_BYTES = 1 << 32
"""The window behind a register; a file that asks for more is damaged."""
GMEM_BITS = 40
"""Descriptor addresses have 40 bits; above them our addresses carry the base register."""
BASE_REGISTERS = 8
SHARED, WEIGHTS, PRIVATE, FIRST_IO = 0, 1, 2, 3
"""What the runtime puts behind the base registers: registers 3..7 are inputs and outputs."""


def lane_address(lane: int, offset: int) -> int:
    """The address of byte `offset` of `lane` in local memory."""
    return lane * LANE_BYTES + offset


def gmem(base: int, offset: int = 0) -> int:
    """The address of byte `offset` behind base register `base`, as DMA instructions take it."""
    return base << GMEM_BITS | GMEM_BASE + offset


def is_gmem(address: int) -> bool:
    """Is this DMA address in GMEM? Local memory has plain addresses below 1 MiB."""
    return address >= GMEM_BASE


def split_gmem(address: int) -> tuple[int, int]:
    """(base register, offset) of a GMEM address."""
    return address >> GMEM_BITS, (address & ((1 << GMEM_BITS) - 1)) - GMEM_BASE


def round_up(value: int, unit: int) -> int:
    """The next multiple of `unit`."""
    return -(-value // unit) * unit
