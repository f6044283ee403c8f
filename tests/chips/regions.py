"""Are an instruction's regions the truth? Bytes beyond those it reads may change nothing, and no others may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tpuc.api import Instruction, Region

Array = np.ndarray[Any, Any]
Memories = Mapping[str, Array]
"""Bytes `[lanes, bytes]` of every memory by name; memories without lanes have one."""
Locate = Callable[[Region], tuple[str, int]]
"""The memory of a region, and what to subtract from its addresses."""


def wrong_regions(
    instruction: Instruction, memories: Memories, locate: Locate, run: Callable[[], None], seed: int
) -> str | None:
    """What is wrong with `reads()` and `writes()`, found by running the instruction twice: None if nothing is.

    The second time all bytes that it does not read are other ones. `run` executes it on `memories`; regions in others
    are left alone.
    """
    rng = np.random.default_rng(seed)
    before = {name: memory.copy() for name, memory in memories.items()}
    read = _touched(instruction.reads(), memories, locate)
    written = _touched(instruction.writes(), memories, locate)
    run()
    after = {name: memory.copy() for name, memory in memories.items()}
    changed = {name: after[name] != before[name] for name in memories}
    for name in memories:
        if (outside := changed[name] & ~written[name]).any():
            return f"writes {name} {_first(outside)}, which is in none of {list(instruction.writes())}"
    other = {
        name: np.where(read[name], old, old ^ rng.integers(1, 256, old.shape, np.uint8)) for name, old in before.items()
    }
    for name, memory in memories.items():
        memory[...] = other[name]
    run()
    for name, memory in memories.items():
        again = memory != other[name]
        if (outside := again & ~written[name]).any():
            return f"writes {name} {_first(outside)}, which is in none of {list(instruction.writes())}"
        if (differs := (again | changed[name]) & (memory != after[name])).any():
            return f"result at {name} {_first(differs)} depends on more than {list(instruction.reads())}"
    return None


def _first(mask: Array) -> str:
    lane, byte = np.argwhere(mask)[0]
    return f"lane {lane}, byte {byte:#x}"


def _touched(regions: Sequence[Region], memories: Memories, locate: Locate) -> dict[str, Array]:
    masks = {name: np.zeros(memory.shape, bool) for name, memory in memories.items()}
    for region in regions:
        name, base = locate(region)
        for piece in region.pieces() if name in masks else ():
            for start in piece.starts() - base:
                masks[name][piece.first_lane : piece.end_lane, start : start + piece.run] = True
    return masks
