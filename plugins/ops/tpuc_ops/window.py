"""Sliding windows: their geometry, shared by convolution and pooling. No numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tpuc_ops.shapes import show

Pair: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class Window:
    """A window over the last two dimensions. `pads` are top, left, bottom, right, as everywhere in TOP and TPU."""

    kernel: Pair
    strides: Pair
    pads: tuple[int, int, int, int]
    dilations: Pair = (1, 1)
    ceil: bool = False

    @classmethod
    def of(
        cls,
        kernel: Sequence[int],
        strides: Sequence[int],
        pads: Sequence[int],
        dilations: Sequence[int] = (),
        ceil: bool = False,
    ) -> Window:
        """From attributes of one or two dimensions; one dimension becomes a row. Raises ValueError when illegal."""
        rank = len(kernel)
        dilations = dilations or (1,) * rank
        if rank not in (1, 2):
            raise ValueError(f"kernel_shape must have 1 or 2 dimensions, this one has {rank}")
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
            return cls(*row, ceil)
        top, left, bottom, right = pads
        return cls(
            (kernel[0], kernel[1]),
            (strides[0], strides[1]),
            (top, left, bottom, right),
            (dilations[0], dilations[1]),
            ceil,
        )

    @property
    def taps(self) -> int:
        """Elements under the window."""
        return self.kernel[0] * self.kernel[1]

    @property
    def extents(self) -> Pair:
        """Rows and columns from the first to the last tap."""
        (kh, kw), (dh, dw) = self.kernel, self.dilations
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    def output(self, size: Sequence[int]) -> Pair:
        """Window positions over an input of `size` rows and columns; raises ValueError when there is none."""
        return self._positions(size[0], 0), self._positions(size[1], 1)

    def overhang(self, size: Sequence[int]) -> Pair:
        """Rows and columns that the last windows reach beyond the padded input (only with `ceil`)."""
        reach = [
            (count - 1) * stride + extent
            for count, stride, extent in zip(self.output(size), self.strides, self.extents, strict=True)
        ]
        return (
            max(reach[0] - size[0] - self.pads[0] - self.pads[2], 0),
            max(reach[1] - size[1] - self.pads[1] - self.pads[3], 0),
        )

    def _positions(self, size: int, axis: int) -> int:
        before, after = self.pads[axis], self.pads[axis + 2]
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


def spatial(shape: Sequence[int], rank: int) -> Pair:
    """The last two dimensions of `[n, c, h, w]`, or 1 and w of `[n, c, w]`; `rank`: dimensions of the kernel."""
    if len(shape) != rank + 2:
        raise ValueError(f"a kernel of {rank} dimensions needs an input of {rank + 2}, this one is {show(shape)}")
    return (shape[2], shape[3]) if rank == 2 else (1, shape[2])
