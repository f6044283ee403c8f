"""Sample images at computed positions: gathered rows of all channels, weighted; regions as matrix products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import ChipDescription, LoweringNode, OpT, Value
from tpuc_ops import top

from tpuc_legalize.composer import MOVES, Composed, Composer, Part, largest_whole
from tpuc_legalize.table import TABLE

_MOST_TAPS = 64
_LOW = -3.0e38


AXES = (
    top.Abs,
    top.AddConst,
    top.Clip,
    top.Compare,
    top.Floor,
    top.Min,
    top.Mul,
    top.MulConst,
    top.Round,
    top.Sub,
    top.SubConst,
)
"""How positions along an axis are computed."""


@dataclass(frozen=True)
class _Tap:
    """Integer positions along one dimension, and their weights (None: 1)."""

    place: Value
    weight: Value | None


@dataclass(frozen=True)
class Axis:
    """One dimension of the images: how positions along it are computed and limited."""

    do: Composer
    size: int
    padding_mode: str
    align_corners: bool

    def place(self, grid: Value) -> Value:
        """Convert from -1 .. 1 to elements."""
        span = self.size - 1 if self.align_corners else self.size
        scaled = self.do(top.MulConst(const_val=span / 2), grid)
        return self.do(top.AddConst(const_val=(self.size - 1) / 2), scaled)

    def folded(self, place: Value) -> Value:
        """Move positions into the image, unless zeros are outside."""
        do, last = self.do, self.size - 1
        if self.padding_mode == "reflection":
            low, high = (0.0, float(last)) if self.align_corners else (-0.5, last + 0.5)
            span = high - low
            if span <= 0:
                return do(top.MulConst(const_val=0.0), place)
            offset = do(top.Abs(), do(top.AddConst(const_val=-low), place))
            turns = do(top.Floor(), do(top.MulConst(const_val=1 / (2 * span)), offset))
            rest = do(top.Sub(), offset, do(top.MulConst(const_val=2 * span), turns))
            back = do(top.SubConst(const_val=2 * span, is_reverse=True), rest)
            place = do(top.AddConst(const_val=low), do(top.Min(), rest, back))
        if self.padding_mode != "zeros":
            place = do(top.Clip(min=0.0, max=float(last)), place)
        return place

    def within(self, tap: _Tap) -> _Tap:
        """Limit a position to the image; outside its weight is 0."""
        do = self.do
        place = do(top.Clip(min=0.0, max=float(self.size - 1)), tap.place)
        if self.padding_mode != "zeros":
            return _Tap(place, tap.weight)
        inside = do(top.Compare(mode="Equal"), tap.place, place)
        return _Tap(place, inside if tap.weight is None else do(top.Mul(), tap.weight, inside))

    def _rounded(self, place: Value) -> Value:
        """The nearest integer; the chip distinguishes -0 from 0, and -0 + 0 is 0."""
        return self.do(top.AddConst(const_val=0.0), self.do(top.Round(), place))

    def taps(self, mode: str, place: Value) -> list[_Tap]:
        """The elements that contribute to a position."""
        do = self.do
        if mode == "nearest":
            return [self.within(_Tap(self._rounded(self.folded(place)), None))]
        if mode == "bilinear":
            place = self.folded(place)
        low = do(top.Floor(), place)
        share = do(top.Sub(), place, low)
        if mode == "bilinear":
            rest = do(top.SubConst(const_val=1.0, is_reverse=True), share)
            upper = do(top.AddConst(const_val=1.0), low)
            return [self.within(_Tap(low, rest)), self.within(_Tap(upper, share))]
        taps: list[_Tap] = []
        for offset in (-1, 0, 1, 2):
            tap = do(top.AddConst(const_val=float(offset)), low)
            if self.padding_mode != "zeros":
                tap = self._rounded(self.folded(tap))
            distance = do(top.Abs(), do(top.AddConst(const_val=-float(offset)), share))
            taps.append(self.within(_Tap(tap, _cubic(do, distance, near=offset in (0, 1)))))
        return taps


def _cubic(do: Composer, x: Value, *, near: bool) -> Value:
    """The weight of an element at distance x, with a = -0.75."""
    if near:
        first = do(top.AddConst(const_val=-2.25), do(top.MulConst(const_val=1.25), x))
        return do(top.AddConst(const_val=1.0), do(top.Mul(), first, do(top.Mul(), x, x)))
    value = do(top.AddConst(const_val=-5.0), x)
    value = do(top.AddConst(const_val=8.0), do(top.Mul(), value, x))
    value = do(top.AddConst(const_val=-4.0), do(top.Mul(), value, x))
    return do(top.MulConst(const_val=-0.75), value)


def sampled(do: Composer, table: Value, sizes: Sequence[int], axes: Sequence[Sequence[_Tap]]) -> Value:
    """The sum over all combinations of taps: `table: [n * places, c]`, taps `[n, p]`, result `[n, p, c]`."""
    n, points = axes[0][0].place.tensor.dims
    count = math.prod(sizes)
    starts = (np.arange(n, dtype=np.float32) * count)[:, None] if n > 1 else None
    total: Value | None = None
    for chosen in itertools.product(*axes):
        index, weight = chosen[0].place, chosen[0].weight
        for tap, size in zip(chosen[1:], sizes[1:], strict=True):
            index = do(top.Add(), do(top.MulConst(const_val=float(size)), index), tap.place)
            if tap.weight is not None:
                weight = tap.weight if weight is None else do(top.Mul(), weight, tap.weight)
        if starts is not None:
            index = do(top.Add(), index, starts)
        rows = do(top.Gather(axis=0), table, index, dims=(n, points, table.tensor.dims[1]))
        if weight is not None:
            rows = do(top.Mul(), rows, do.reshape(weight, n, points, 1))
        total = rows if total is None else do(top.Add(), total, rows)
    assert total is not None
    return total


def table_of_places(do: Composer, x: Value) -> Value:
    """`x: [n, c, ...]` as `[n * places, c]`."""
    n, c, *sizes = x.tensor.dims
    last = do.permute(do.reshape(x, n, c, math.prod(sizes)), 0, 2, 1)
    return do.reshape(last, n * math.prod(sizes), c)


class Sampled(Composed[OpT]):
    """Base: positions between elements, for which narrow floats have too few digits."""

    def fits(self, chip: ChipDescription) -> bool:
        return chip.compute_type == "f32"


@TABLE.legalizes(top.GridSampler)
class GridSamplerAny(Sampled[top.GridSampler]):
    """Every tap is a gather of channel rows; outside its weight is 0."""

    into = (*MOVES, top.Add, top.Gather, top.Mul, *AXES)

    def refuse(self, node: LoweringNode) -> str | None:
        dims = node.operand_types[0].dims
        places = dims[0] * math.prod(dims[2:])
        most = largest_whole(node)
        if places > most:
            return f"at most {most} positions in all images, there are {places}"
        if node.constants[0] is not None or node.constants[1] is not None:
            return "images and grid must be computed"
        return None

    def compose(self, node: LoweringNode[top.GridSampler], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        x, grid = node.operands
        n, c, *sizes = x.tensor.dims
        result = node.result_type.dims
        points = math.prod(result[2:])
        flat = do.reshape(grid, n, points, len(sizes))
        taps: list[list[_Tap]] = []
        for axis, size in enumerate(sizes):
            at = len(sizes) - 1 - axis
            column = do.reshape(do.slice(flat, (0, 0, at), (n, points, at + 1)), n, points)
            way = Axis(do, size, node.op.padding_mode, node.op.align_corners)
            taps.append(way.taps(node.op.mode, way.place(column)))
        total = sampled(do, table_of_places(do, x), sizes, taps)
        return [do.reshape(do.permute(total, 0, 2, 1), n, c, *result[2:], last=True)]


@TABLE.legalizes(top.MaxPoolWithMask)
class MaxPoolWithMaskAny(Composed[top.MaxPoolWithMask]):
    """The maximum, then the taps in reverse order: where a tap equals the maximum, its position."""

    into = (*MOVES, top.Compare, top.MaxPool, top.Pad, top.Where)

    def refuse(self, node: LoweringNode) -> str | None:
        taps, places = math.prod(node.op.kernel_shape), math.prod(node.operand_types[0].dims[2:])
        if places > largest_whole(node):
            return f"images of at most {largest_whole(node)} elements, this one has {places}"
        return f"at most {_MOST_TAPS} taps, this window has {taps}" if taps > _MOST_TAPS else None

    def compose(self, node: LoweringNode[top.MaxPoolWithMask], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        op = node.op
        x = node.operands[0]
        n, c, rows, columns = x.tensor.dims
        window, dims = op.window(), node.result_type.dims
        above, left, bottom, right = op.pads
        names = node.result_names
        values = do(top.MaxPool(kernel_shape=op.kernel_shape, strides=op.strides, pads=op.pads), x, name=names[0])
        # A window that reaches beyond the image is cut by the slices' ends, so the border is made wide enough.
        border = top.Pad(paddings=(0, 0, above, left, 0, 0, bottom, right), mode="constant", val=_LOW)
        padded = do(border, x, dims=(n, c, rows + above + bottom, columns + left + right))
        mask: Part = np.zeros((1, 1, 1, 1), np.float32)
        taps = list(itertools.product(range(window.kernel[0]), range(window.kernel[1])))
        for number, (down, across) in enumerate(reversed(taps)):
            ends = [
                start + (count - 1) * stride + 1
                for start, count, stride in zip((down, across), dims[2:], window.strides, strict=True)
            ]
            tap = do.slice(padded, (0, 0, down, across), (n, c, *ends), (1, 1, *window.strides))
            row = np.arange(dims[2])[:, None] * window.strides[0] + down - above
            column = np.arange(dims[3])[None] * window.strides[1] + across - left
            places = column * rows + row if op.by_column else row * columns + column
            chosen = do(top.Compare(mode="GreaterOrEqual"), tap, values)
            name = names[1] if number == len(taps) - 1 else None
            mask = do(top.Where(), chosen, places[None, None].astype(np.float32), mask, dims=dims, name=name)
        assert isinstance(mask, Value)
        return [values, mask]
