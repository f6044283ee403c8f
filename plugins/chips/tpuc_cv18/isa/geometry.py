"""Sizes and addresses common to all CV18xx chips (isa notes, chip.md: verified on the functional model)."""

from __future__ import annotations

LANE_BYTES = 1 << 15
EU_BYTES = 16
"""A lane processes 16 bytes per cycle: 16 int8 or 8 bf16 elements."""
REQUANTIZE_LEAST = 16
"""Minimum cycles per vector with per-channel requantization."""
GMEM_BASE = 1 << 32
"""Constant that a descriptor adds to an offset in GMEM."""
MEMORY_LIMIT_BYTES = 1 << 32
"""Size of the memory window behind a base register; a file that needs more is damaged."""
GMEM_BITS = 40
"""Descriptor addresses have 40 bits; the base register is stored above them here."""
BASE_REGISTERS = 8
SHARED, WEIGHTS, PRIVATE, FIRST_IO = 0, 1, 2, 3
"""Base registers as the runtime assigns them; registers 3..7 are inputs and outputs."""


def lane_address(lane: int, offset: int) -> int:
    """The address of byte `offset` of `lane` in local memory."""
    return lane * LANE_BYTES + offset


def gmem(base: int, offset: int = 0) -> int:
    """The DMA address of byte `offset` behind base register `base`."""
    return base << GMEM_BITS | GMEM_BASE + offset


def is_gmem(address: int) -> bool:
    """True for a DMA address in GMEM; local memory has addresses below 1 MiB."""
    return address >= GMEM_BASE


def split_gmem(address: int) -> tuple[int, int]:
    """The (base register, offset) of a GMEM address."""
    return address >> GMEM_BITS, (address & ((1 << GMEM_BITS) - 1)) - GMEM_BASE


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of `unit` that is at least `value`."""
    return -(-value // unit) * unit
