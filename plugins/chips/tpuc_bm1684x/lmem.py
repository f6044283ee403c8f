"""Local memory, and the size of a tensor in each layout."""

from __future__ import annotations

from tpuc.api import LmemModel, Shape4

from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import BM1684X, Target

MAX_STEP = 65535
"""Largest value of the stride fields of convolutions and elementwise commands (isa notes, "Dimension limits")."""


class Bm1684xLmem(LmemModel):
    """Channel c is stored in lane c mod lanes, slot c div lanes (isa notes, "Tensor layout in LMEM")."""

    def __init__(self, target: Target = BM1684X) -> None:
        self.lanes = target.lanes
        self.lane_bytes = target.lane_bytes
        self.alignment = target.eu_bytes
        self.bank_bytes = target.bank_bytes

    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        """Bytes per lane: one plane of h*w elements per (n, slot). Layout "aligned" rounds planes up to vectors,
        "lines" rounds rows up, "compact" rounds nothing.
        """
        n, c, h, w = shape
        plane = h * w * item_bytes
        if layout == "aligned":
            plane = round_up(plane, self.alignment)
        elif layout == "lines":
            plane = h * round_up(w * item_bytes, self.alignment)
        return n * -(-c // self.lanes) * plane

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
        strides = (n if part[0] > 1 else 0, c if part[1] > self.lanes else 0, h, w)
        return (offset, strides) if max(strides) <= MAX_STEP else None
