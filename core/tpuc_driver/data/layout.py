"""Accept arrays with channels first where the input has them last, and the reverse.

The order is only ever taken from the shape where one order fits and the other does not, and where the network's file
keeps images otherwise than we do.
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
"""Channels of pictures: grey, colour, colour with alpha."""

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


@dataclass(frozen=True)
class ArrayLayout:
    """How arrays for an input of four dimensions may lie. The input lies as `own` says, the network's file keeps it as
    `file` says, and `said` is what the user says of all arrays, None where nobody did.
    """

    own: Layout = "nchw"
    file: Layout | None = None
    said: Layout | None = None

    def other_shape(self, shape: Shape) -> Shape | None:
        """The shape of an input in the order that is not its own; None where arrays cannot lie like that."""
        if len(shape) != 4 or (self.said or self.file or self.own) == self.own:
            return None
        return tuple(shape[axis] for axis in self._to_other)

    def pick(self, shape: Shape, name: str, found: Callable[[Shape], T | None], source: Path) -> tuple[T | None, bool]:
        """What `found` says of the shape that arrays for this input have, and whether it is not the input's own.

        Raises CalibrationError where arrays of both orders are possible and nobody said which these are.
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
        """A row in the input's own order, from the other one; extents of 1 may be missing."""
        other = tuple(shape[axis] for axis in self._to_other)
        whole = row.reshape(other if row.size == math.prod(other) else (1, *other[1:]))
        return whole.transpose(_TO_FIRST if self.own == "nchw" else _TO_LAST)

    def shown(self, shape: Shape) -> str:
        """The shapes that arrays may have, for sentences."""
        other = self.other_shape(shape)
        if other is None:
            return f"{shape}"
        return f"{other} ({self.said})" if self.said is not None else f"{shape} ({self.own}) or {other} ({self.file})"

    def hint(self, shape: Shape, found: Callable[[Shape], T | None]) -> str:
        """What an array that does not fit would fit as, if the user said so; a sentence, empty for no other way."""
        if len(shape) != 4 or self.file not in (None, self.own) or self.said is not None:
            return ""
        way = "nhwc" if self.own == "nchw" else "nchw"
        other = tuple(shape[axis] for axis in self._to_other)
        return "" if found(other) is None else f" It fits as {way}: add {OPTION} {way}."

    def _is_same_order(self, shape: Shape) -> bool:
        """Do elements follow each other alike in both orders, as with one channel?"""
        channels = shape[1] if self.own == "nchw" else shape[3]
        return channels == 1 or math.prod(shape[1:]) == channels

    @property
    def _to_other(self) -> Shape:
        return _TO_LAST if self.own == "nchw" else _TO_FIRST


def layout_of(shape: Shape, own: Layout, file: Layout | None, said: str) -> ArrayLayout:
    """How arrays for an input of `shape` may lie. An input with few channels at the end is `nhwc` where nobody knows;
    inputs of networks whose files have an order of their own have been turned to `nchw`.
    """
    if file is not None:
        own = "nchw"
    elif len(shape) == 4 and shape[3] in PIXEL_CHANNELS and shape[1] not in PIXEL_CHANNELS:
        own = "nhwc"
    return ArrayLayout(own, file, "nchw" if said == "nchw" else "nhwc" if said == "nhwc" else None)
