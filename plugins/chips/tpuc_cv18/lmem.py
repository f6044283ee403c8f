"""Local memory with lanes of 32 KiB, and the size of a tensor in each layout."""

from __future__ import annotations

from tpuc.api import LmemModel, Shape4

from tpuc_cv18.isa.geometry import EU_BYTES, LANE_BYTES, round_up
from tpuc_cv18.isa.target import Target

WIDENED = "widened"
"""Layout of byte tensors that are held in local memory as bf16; a store converts them to bytes."""


class Cv18Lmem(LmemModel):
    """Channel c is stored in lane c mod `lanes`, group c div `lanes` (isa notes, "LMEM tensor layout")."""

    lane_bytes = LANE_BYTES
    alignment = EU_BYTES

    def __init__(self, target: Target) -> None:
        self.lanes = target.lanes

    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        """Bytes per lane: one plane of h*w elements per (n, group), rounded up to 16 bytes."""
        n, c, h, w = shape
        item_bytes = _stored_bytes(layout, item_bytes)
        return n * -(-c // self.lanes) * round_up(h * w * item_bytes, EU_BYTES)

    def part_offset(self, layout: str, shape: Shape4, item_bytes: int, start: Shape4, part: Shape4) -> int | None:
        return super().part_offset("aligned", shape, _stored_bytes(layout, item_bytes), start, part)

    def part_strides(
        self, layout: str, shape: Shape4, item_bytes: int, start: Shape4, part: Shape4
    ) -> tuple[int, Shape4] | None:
        return super().part_strides("aligned", shape, _stored_bytes(layout, item_bytes), start, part)


def _stored_bytes(layout: str, item_bytes: int) -> int:
    return 2 * item_bytes if layout == WIDENED else item_bytes
