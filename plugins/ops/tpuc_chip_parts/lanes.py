"""Distribution of channels over the lanes of a chip: axes of kernels, bytes of constants, long rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.api import Axis, Shape4, View
from tpuc_ops.window import Pair, Window

from tpuc_chip_parts import tiles

if TYPE_CHECKING:
    from tpuc_ops.arrays import Array


@dataclass(frozen=True)
class Lanes:
    """`count` lanes with commands limited to extents up to `largest`, pads up to `largest_step`, up to `largest_insert`
    zeros between taps, and window strides up to `largest_stride`.
    """

    count: int
    largest: int
    largest_step: int
    largest_insert: int
    largest_stride: int

    def slots_of(self, channels: int) -> int:
        """Channels per lane."""
        return -(-channels // self.count)

    def by_lane(self, rows: Array) -> Array:
        """Rearrange a row of items per channel `[channels, x]` to bytes per lane `[lanes, slots * x]`; channel c is in
        lane c mod `count`.
        """
        import numpy as np

        channels = rows.shape[0]
        data = np.ascontiguousarray(rows).view(np.uint8).reshape(channels, -1)
        lanes, slots = min(channels, self.count), self.slots_of(channels)
        padded = np.zeros((slots * self.count, data.shape[1]), np.uint8)
        padded[:channels] = data
        return padded.reshape(slots, self.count, -1).transpose(1, 0, 2).reshape(self.count, -1)[:lanes].copy()

    def rows(self, size: int) -> View | None:
        """Return a view of all elements as equal rows on more than half of the lanes; None if the size is not divisible
        that way.
        """
        lanes = next((count for count in range(self.count, self.count // 2, -1) if size % count == 0), None)
        return None if lanes is None else View((1, lanes, 1, size // lanes))

    def parallel_axes(
        self, shape: Shape4, order: str = "nchw", *, whole: str = "", limits: Pair | None = None
    ) -> tuple[Axis, ...]:
        """Parallel axes over a result's dimensions; those in `whole` are never split. Channels are split at multiples
        of the lane count; `limits`: rows, columns of a tile.
        """
        rows, columns = limits or (self.largest, self.largest)
        most = {"h": rows, "w": columns}
        axes: list[Axis] = []
        for name in order:
            size = shape["nchw".index(name)]
            unit = size if name in whole else self.count if name == "c" else 1
            axes.append(Axis(name, size, granularity=unit, limit=most.get(name, self.largest)))
        return tuple(axes)

    def window_refusal(self, window: Window, overhang: Pair = (0, 0)) -> str | None:
        """The refusal of sliding windows beyond the field limits, or with positions that cover only padding.

        `overhang`: rows and columns that the last windows extend beyond the padding.
        """
        refused = tiles.window_refusal(window, self.largest_step, overhang, self.largest_insert, self.largest_stride)
        if refused is None and max(window.extents) > self.largest:
            return f"a window of at most {self.largest}, this one is {max(window.extents)}"
        return refused

    def window_limits(self, extent: Pair, strides: Sequence[int]) -> Pair:
        """Result rows and columns of a tile whose input still fits the size fields."""
        return tiles.window_limits(extent, strides, self.largest)
