"""Local memory of CV183x: 32 lanes of 32 KiB; how many bytes a tensor takes in each layout."""

from __future__ import annotations

from tpuc.api import LmemModel, Shape4

from tpuc_cv183x.isa.geometry import EU_BYTES, LANE_BYTES, LANES, round_up


class Cv183xLmem(LmemModel):
    """Channel c lies in lane c mod 32, group c div 32 (isa notes, "LMEM tensor layout")."""

    lanes = LANES
    lane_bytes = LANE_BYTES
    alignment = EU_BYTES

    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        """Bytes per lane: each (n, group) plane of h*w elements, rounded up to 16 bytes."""
        n, c, h, w = shape
        return n * -(-c // LANES) * round_up(h * w * item_bytes, EU_BYTES)


def planes_bytes(shape: Shape4, item_bytes: int = 1) -> int:
    """Bytes per lane of one plane of a tensor: batches, groups and rows together."""
    return Cv183xLmem().tensor_bytes("aligned", shape, item_bytes)
