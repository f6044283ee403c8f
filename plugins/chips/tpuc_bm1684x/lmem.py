"""Local memory of BM1684X: 64 lanes of 256 KiB, and the size of a tensor in each layout."""

from __future__ import annotations

from tpuc.api import LmemModel, Shape4

from tpuc_bm1684x.isa.geometry import BANK_BYTES, EU_BYTES, LANE_BYTES, LANES, round_up

MAX_STEP = 65535
"""Largest value of the stride fields of convolutions and elementwise commands (isa notes, "Dimension limits")."""


class Bm1684xLmem(LmemModel):
    """Channel c is stored in lane c mod 64, slot c div 64 (isa notes, "Tensor layout in LMEM")."""

    lanes = LANES
    lane_bytes = LANE_BYTES
    alignment = EU_BYTES
    bank_bytes = BANK_BYTES

    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        """Bytes per lane: one plane of h*w elements per (n, slot). Layout "aligned" rounds planes up to 64 bytes,
        "lines" rounds rows up, "compact" rounds nothing.
        """
        n, c, h, w = shape
        plane = h * w * item_bytes
        if layout == "aligned":
            plane = round_up(plane, EU_BYTES)
        elif layout == "lines":
            plane = h * round_up(w * item_bytes, EU_BYTES)
        return n * -(-c // LANES) * plane

    def part_strides(
        self, layout: str, shape: Shape4, item_bytes: int, start: Shape4, part: Shape4
    ) -> tuple[int, Shape4] | None:
        """Like the base method, with strides of unused dimensions set to 0; None when a stride exceeds its 16-bit
        field.
        """
        found = super().part_strides(layout, shape, item_bytes, start, part)
        if found is None:
            return None
        offset, (n, c, h, w) = found
        strides = (n if part[0] > 1 else 0, c if part[1] > LANES else 0, h, w)
        return (offset, strides) if max(strides) <= MAX_STEP else None
