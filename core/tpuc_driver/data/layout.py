"""Accept channels-first arrays for channels-last inputs, and the reverse.

The layout is inferred from the shape only if exactly one layout fits and the network's file stores images in another
layout than ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from numpy.typing import NDArray
from tpuc.errors import CalibrationError

Layout: TypeAlias = Literal["nchw", "nhwc"]
Shape = tuple[int, ...]
T = TypeVar("T")

OPTION = "--input-layout"

PIXEL_CHANNELS = (1, 3, 4)
"""Channel counts of pictures: gray, color, color with alpha."""

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class ArrayLayout:
    """Accepted layouts of arrays for a four-dimensional input: `own` is the input's, `file` that of the network's file,
    and `chosen` the user's for all arrays, None by default.
    """

    own: Layout = "nchw"
    file: Layout | None = None
    said: Layout | None = None

    def other_shape(self, shape: Shape) -> Shape | None:
        """The shape of an input in the other layout; None where arrays cannot have it."""
        if len(shape) != 4 or (self.said or self.file or self.own) == self.own:
            return None
        return tuple(shape[axis] for axis in self._to_other)

    def pick(self, shape: Shape, name: str, found: Callable[[Shape], T | None], source: Path) -> tuple[T | None, bool]:
        """The result of `found` for the shape of the arrays, and whether it is the other layout.

        Raises CalibrationError where both layouts fit and the user named neither.
        """
        other = self.other_shape(shape)
        if other is None:
            return found(shape), False
        there = found(other)
        if self.said is not None:
            return there, True
        own = found(shape)
        if own is None:
            return there, there is not None
        if there is None or self._is_same_order(shape):
            return own, False
        raise CalibrationError(
            f"{source}: it fits input '{name}' as {self.own} {shape}, and as {self.file} {other}, the layout of the "
            f"network's file; choose with {OPTION} nchw or {OPTION} nhwc."
        )

    def turned(self, row: NDArray[Any], shape: Shape) -> NDArray[Any]:
        """A row converted from the other layout to the input's own; extents of 1 may be missing."""
        other = tuple(shape[axis] for axis in self._to_other)
        whole = row.reshape(other if row.size == math.prod(other) else (1, *other[1:]))
        return whole.transpose(_TO_FIRST if self.own == "nchw" else _TO_LAST)

    def shown(self, shape: Shape) -> str:
        """The accepted shapes, for messages."""
        other = self.other_shape(shape)
        if other is None:
            return f"{shape}"
        return f"{other} ({self.said})" if self.said is not None else f"{shape} ({self.own}) or {other} ({self.file})"

    def hint(self, shape: Shape, found: Callable[[Shape], T | None]) -> str:
        """A sentence on the layout option that would make an array fit; empty if there is none."""
        if len(shape) != 4 or self.file not in (None, self.own) or self.said is not None:
            return ""
        way = "nhwc" if self.own == "nchw" else "nchw"
        other = tuple(shape[axis] for axis in self._to_other)
        return "" if found(other) is None else f" It fits as {way}: add {OPTION} {way}."

    def _is_same_order(self, shape: Shape) -> bool:
        """True if both layouts store the elements in the same order, as with one channel."""
        channels = shape[1] if self.own == "nchw" else shape[3]
        return channels == 1 or math.prod(shape[1:]) == channels

    @property
    def _to_other(self) -> Shape:
        return _TO_LAST if self.own == "nchw" else _TO_FIRST


def layout_of(shape: Shape, own: Layout, file: Layout | None, chosen: str) -> ArrayLayout:
    """The accepted layouts of arrays for an input of `shape`. An undescribed input with few channels at the end is
    `nhwc`; inputs of networks with another file layout have been converted to `nchw`.
    """
    if file is not None:
        own = "nchw"
    elif len(shape) == 4 and shape[3] in PIXEL_CHANNELS and shape[1] not in PIXEL_CHANNELS:
        own = "nhwc"
    return ArrayLayout(own, file, "nchw" if chosen == "nchw" else "nhwc" if chosen == "nhwc" else None)
