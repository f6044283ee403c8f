"""Geometry of sliding windows, shared by convolution and pooling. No numpy."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpuc_ops.shapes import show

Pair: TypeAlias = tuple[int, int]
Extents: TypeAlias = tuple[int, ...]
"""One number per spatial dimension."""


@dataclass(frozen=True)
class Window:
    """A window over the last two or three dimensions. `pads` lists all before, then all after, as everywhere in TOP and
    TPU: for images top, left, bottom, right; for volumes front and back come first in each half.
    """

    kernel: Extents
    strides: Extents
    pads: Extents
    dilations: Extents = (1, 1)
    ceil: bool = False

    @classmethod
    def of(
        cls,
        kernel: Sequence[int],
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int] = (),
        ceil: bool = False,
        most: int = 2,
    ) -> Window:
        """Build a window from attributes of one to `most` dimensions; one dimension becomes a row. Raises ValueError if
        they are illegal.
        """
        return _window(tuple(kernel), tuple(strides), tuple(pads), tuple(dilations), ceil, most)

    @property
    def taps(self) -> int:
        """Number of elements under the window."""
        return math.prod(self.kernel)

    @property
    def extents(self) -> Extents:
        """Number of elements from the first to the last tap, per dimension."""
        return tuple((taps - 1) * apart + 1 for taps, apart in zip(self.kernel, self.dilations, strict=True))

    def output(self, size: Sequence[int]) -> Extents:
        """Return the number of window positions per dimension over an input of `size`; raises ValueError if there
        is none.
        """
        return _output(self, tuple(size))

    def overhang(self, size: Sequence[int]) -> Extents:
        """Return by how much the last windows extend beyond the padded input (only with `ceil`)."""
        rank = len(self.kernel)
        reach = [
            (count - 1) * stride + extent
            for count, stride, extent in zip(self.output(size), self.strides, self.extents, strict=True)
        ]
        return tuple(
            max(reach[axis] - size[axis] - self.pads[axis] - self.pads[axis + rank], 0) for axis in range(rank)
        )

    def positions(self, size: int, axis: int) -> int:
        """Return the number of window positions along one axis; raises ValueError if there is none."""
        before, after = self.pads[axis], self.pads[axis + len(self.kernel)]
        room = size + before + after - self.extents[axis]
        if room < 0 and not (self.ceil and -room < self.strides[axis]):
            raise ValueError(
                f"kernel {show(self.kernel)} reaches over {self.extents[axis]} elements, the padded input has "
                f"{size + before + after}"
            )
        count = room // self.strides[axis] + 1
        # A window that ceil adds must still begin inside the input or the padding before it.
        if self.ceil and room % self.strides[axis] and count * self.strides[axis] < size + before:
            count += 1
        return count


@functools.lru_cache(1 << 12)
def _window(kernel: Extents, strides: Extents, pads: Extents, dilations: Extents, ceil: bool, most: int) -> Window:
    """As `Window.of`, cached: networks have few different windows, and each is requested whenever an op runs."""
    rank = len(kernel)
    dilations = dilations or (1,) * rank
    if not 1 <= rank <= most:
        allowed = "1 or 2" if most == 2 else f"1 to {most}"
        raise ValueError(f"kernel_shape must have {allowed} dimensions, this one has {rank}")
    if not len(strides) == len(dilations) == rank or len(pads) != 2 * rank:
        raise ValueError(
            f"a kernel of {rank} dimensions needs {rank} strides and dilations and {2 * rank} pads, there are "
            f"{len(strides)}, {len(dilations)} and {len(pads)}"
        )
    if min(*kernel, *strides, *dilations) < 1:
        raise ValueError("kernel_shape, strides and dilations must be at least 1")
    if min(pads) < 0:
        raise ValueError(f"pads must not be negative, these are {list(pads)}")
    if rank == 1:
        row = ((1, kernel[0]), (1, strides[0]), (0, pads[0], 0, pads[1]), (1, dilations[0]))
        return Window(*row, ceil)
    return Window(kernel, strides, pads, dilations, ceil)


@functools.lru_cache(1 << 12)
def _output(window: Window, size: Extents) -> Extents:
    """As `Window.output`, cached."""
    return tuple(window.positions(extent, axis) for axis, extent in enumerate(size))


def spatial(shape: Sequence[int], rank: int) -> Extents:
    """Return the dimensions after n and c, or 1 and w for `[n, c, w]`; `rank`: dimensions of the kernel. Raises
    ValueError if they do not fit.
    """
    if len(shape) != rank + 2:
        raise ValueError(f"a kernel of {rank} dimensions needs an input of {rank + 2}, this one is {show(shape)}")
    return (1, shape[2]) if rank == 1 else tuple(shape[2:])


def pair(extents: Extents) -> Pair:
    """Return the two extents of an image: rows and columns."""
    rows, columns = extents
    return rows, columns
