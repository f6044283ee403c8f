"""How many bytes a tensor takes in each layout (manual, 1)."""

from __future__ import annotations

from tpuc.api import LmemModel, Shape4

from toy_chip.operands import LANE_BYTES, LANES, VECTOR_BYTES


class ToyLmem(LmemModel):
    """Channel c lies in lane c mod 8, slot c div 8; the layout `aligned` rounds each plane up to a vector."""

    lanes = LANES
    lane_bytes = LANE_BYTES
    alignment = VECTOR_BYTES

    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        """See LmemModel."""
        n, c, h, w = shape
        plane = h * w * item_bytes
        if layout == "aligned":
            plane = -(-plane // VECTOR_BYTES) * VECTOR_BYTES
        return n * -(-c // LANES) * plane
