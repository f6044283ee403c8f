"""Compute the operand part that a result tile needs: sliding windows, transposed ones, pads."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from tpuc.api import ABSENT, Assembler, Box, Node, Shape4, Space, Tile, TileKernel, View, elementwise_view, window
from tpuc_ops.window import Pair, Window, pair

if TYPE_CHECKING:
    from tpuc_ops.arrays import Array

AssemblerT = TypeVar("AssemblerT", bound=Assembler)
Ranges: TypeAlias = "list[Pair]"


def tile_shape(tile: Tile) -> Shape4:
    """Extents of a result tile."""
    return (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))


def window_refusal(window: Window, most: int, overhang: Pair, most_zeros: int, most_stride: int) -> str | None:
    """The refusal of sliding windows beyond fields for pads up to `most`, up to `most_zeros` between taps and strides
    up to `most_stride`, or with positions that cover only padding.

    `overhang`: rows and columns that the last windows extend beyond the padding.
    """
    farthest = most_zeros + 1
    top, left, bottom, right = window.pads
    pads = (top, left, bottom + overhang[0], right + overhang[1])
    if max(window.strides) > most_stride:
        return f"stride at most {most_stride}, this one is {max(window.strides)}"
    if max(pads) > most:
        return f"padding at most {most}, this one is {max(pads)}"
    if max(window.dilations) > farthest:
        return f"dilation at most {farthest}, this one is {max(window.dilations)}"
    for pad, extent in zip(window.pads, window.extents * 2, strict=True):
        if pad >= extent:
            # A tile could lie in the padding alone, and there is no command for that.
            return f"padding below the window's own extent, this one is {pad} for {extent}"
    return None


def window_limits(extent: Pair, strides: Sequence[int], most: int) -> Pair:
    """Result rows and columns of a tile whose input has at most `most`. `extent`: of the dilated kernel."""
    rows, columns = (max(1, min(most, (most - size) // stride)) for size, stride in zip(extent, strides, strict=True))
    return rows, columns


def window_box(
    tile: Tile, view: View, channels: Pair, extent: Pair, strides: Sequence[int], pads: Sequence[int]
) -> Box:
    """The input part that a tile of a sliding window reads. `extent`: of the dilated kernel; `pads` top, left first."""
    n0, n1 = tile.range("n")
    h0, h1 = tile.range("h")
    w0, w1 = tile.range("w")
    _, _, height, width = view.shape
    top0, bottom0, top, bottom = window(h0, h1, strides[0], extent[0], pads[0], height)
    left0, right0, left, right = window(w0, w1, strides[1], extent[1], pads[1], width)
    return Box(
        (n0, channels[0], top0, left0),
        (n1 - n0, channels[1] - channels[0], bottom0 - top0, right0 - left0),
        (top, left, bottom, right),
    )


@dataclass(frozen=True)
class Product:
    """A convolution, or an op computed as one: a transposed convolution, or a matrix product as 1×1 windows."""

    input: View
    output: View
    kernel: Pair = (1, 1)
    strides: Pair = (1, 1)
    pads: tuple[int, ...] = (0, 0, 0, 0)
    dilations: Pair = (1, 1)
    has_bias: bool = False
    multipliers: tuple[int, ...] = ()
    right_shifts: tuple[int, ...] = ()
    scales: tuple[float, ...] = ()
    """Float factors instead of multipliers and shifts."""
    inserts: Pair = (0, 0)
    """Zeros inserted between the input's rows and columns."""

    @classmethod
    def of_convolution(cls, node: Node, **more: Any) -> Self:
        """A `tpu.Conv2D` as it is."""
        return cls._of(node, node.op.window(), pads=node.op.pads, strides=node.op.window().strides, **more)

    @classmethod
    def of_transposed(cls, node: Node, **more: Any) -> Self:
        """A `tpu.Deconv` as the convolution of its zero-inserted input with the rotated filter."""
        geometry: Window = node.op.window()
        around = tuple(extent - 1 - pad for extent, pad in zip(geometry.extents * 2, geometry.pads, strict=True))
        inserts = (geometry.strides[0] - 1, geometry.strides[1] - 1)
        return cls._of(node, geometry, pads=around, inserts=inserts, **more)

    @classmethod
    def _of(cls, node: Node, geometry: Window, **more: Any) -> Self:
        return cls(
            View(elementwise_view(node.operand_types[0].dims)),
            View(elementwise_view(node.result_type.dims)),
            kernel=pair(geometry.kernel),
            dilations=pair(geometry.dilations),
            has_bias=node.operand_types[2] is not ABSENT,
            multipliers=node.op.multiplier,
            right_shifts=node.op.rshift,
            scales=getattr(node.op, "scales", ()),
            **more,
        )

    def requantization(self, channels: Pair) -> tuple[Sequence[int], Sequence[int]]:
        """Multipliers and right shifts of a range of output channels; a single one may serve all."""
        first, end = channels
        count = self.output.shape[1]
        multipliers = self.multipliers * (count // len(self.multipliers))
        return multipliers[first:end], (self.right_shifts * (count // len(self.right_shifts)))[first:end]

    @property
    def requantizes(self) -> bool:
        """True if integer sums become bytes."""
        return bool(self.multipliers or self.scales)

    def factors(self, channels: Pair) -> Sequence[float]:
        """The `scales` of a range of output channels."""
        count = self.output.shape[1]
        return (self.scales * (count // len(self.scales)))[slice(*channels)]

    @property
    def extent(self) -> Pair:
        """Rows and columns of the dilated kernel."""
        return ((self.kernel[0] - 1) * self.dilations[0] + 1, (self.kernel[1] - 1) * self.dilations[1] + 1)

    def box(self, tile: Tile, channels: Pair) -> Box:
        """The input part that a tile reads; with inserts, the padding is relative to the zero-inserted input."""
        if not any(self.inserts):
            return window_box(tile, self.input, channels, self.extent, self.strides, self.pads)
        n0, n1 = tile.range("n")
        _, _, *limits = self.input.shape
        starts: list[int] = []
        sizes: list[int] = []
        before: list[int] = []
        after: list[int] = []
        for axis, name in enumerate("hw"):
            first, end = tile.range(name)
            step = self.inserts[axis] + 1
            low, high = first - self.pads[axis], end - 1 - self.pads[axis] + self.extent[axis] - 1
            start, stop = max(-(-low // step), 0), min(high // step, limits[axis] - 1)
            starts.append(start)
            sizes.append(stop - start + 1)
            before.append(start * step - low)
            after.append(high - stop * step)
        return Box(
            (n0, channels[0], starts[0], starts[1]),
            (n1 - n0, channels[1] - channels[0], sizes[0], sizes[1]),
            (before[0], before[1], after[0], after[1]),
        )


@dataclass(frozen=True)
class ProductSpace(Space):
    """The iteration space with its product."""

    product: Product


class WindowKernel(TileKernel[Any, AssemblerT]):
    """Base of kernels that compute their node as a convolution: only the input is a tensor in local memory."""

    def product(self, node: Node) -> Product:
        """The node as a convolution."""
        raise NotImplementedError

    def filter_array(self, node: Node, arrays: Sequence[Array | None]) -> Array:
        """The filter as `[oc, ic, kh, kw]`. Default: the second operand."""
        filters = arrays[1]
        assert filters is not None, "the filter is a constant"
        return filters

    def input_channels(self, node: Node, tile: Tile) -> Pair:
        """The channels of the input that a tile reads. Default: those of the reduction."""
        return tile.range("k")

    def tiling_key(self, node: Node) -> Hashable:
        product = self.product(node)
        present = {"multipliers": product.multipliers[:1] and (0,), "scales": product.scales[:1] and (0.0,)}
        return dataclasses.replace(product, right_shifts=(), **present)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        product = space.product if isinstance(space, ProductSpace) else self.product(node)
        boxes: list[Box | None] = [None] * len(node.operand_types)
        boxes[0] = product.box(tile, self.input_channels(node, tile))
        return boxes


class PerChannelKernel(WindowKernel[AssemblerT]):
    """Base of kernels with one filter per channel."""

    def product(self, node: Node) -> Product:
        return Product.of_convolution(node)

    def input_channels(self, node: Node, tile: Tile) -> Pair:
        return tile.range("c")


class RowsFilter:
    """Mixin of kernels for matrix products: the columns of the constant matrix become filters of 1×1 windows."""

    def filter_array(self, node: Node, arrays: Sequence[Array | None]) -> Array:
        """The matrix as `[columns, depth, 1, 1]`."""
        right = arrays[1]
        assert right is not None, "the matrix is a constant"
        return (right if node.op.right_transpose else right.T)[:, :, None, None]


def transposed_refusal(node: Node, largest_step: int) -> str | None:
    """The refusal of transposed convolutions that are not a convolution of the zero-inserted input."""
    window = node.op.window()
    if max(window.dilations) > largest_step + 1:
        return f"dilation at most {largest_step + 1}, this one is {max(window.dilations)}"
    extra = node.op.output_padding or (0, 0)
    for extent, stride, added, first, last in zip(
        window.extents, window.strides, extra, window.pads[:2], window.pads[2:], strict=True
    ):
        if extent < stride:
            return f"a window of at least the stride, this one is {extent} for {stride}"
        if max(first, last) >= extent or added > last:
            return "padding below the window's extent, and at least the output padding"
    return None


class TurnedFilter:
    """Mixin of kernels for transposed convolutions: the filter of the equivalent convolution."""

    def filter_array(self, node: Node, arrays: Sequence[Array | None]) -> Array:
        """The filter as `[oc, ic, kh, kw]`, rotated by 180 degrees."""
        filters = arrays[1]
        assert filters is not None, "the filter is a constant"
        return node.op.turned(filters)


def padded_box(node: Node, tile: Tile) -> Box:
    """The operand part that a tile of an image Pad reads.

    A tile within the padding still reads something, which keeps the shapes legal.
    """
    starts: list[int] = []
    sizes: list[int] = []
    for (start, stop), extent in zip(_sources(node, tile), node.operand_types[0].dims, strict=True):
        starts.append(start if stop > start else min(start, extent - 1))
        sizes.append(max(stop - start, 1))
    return Box((starts[0], starts[1], starts[2], starts[3]), (sizes[0], sizes[1], sizes[2], sizes[3]))


def kept_part(node: Node, tile: Tile) -> tuple[Shape4, Shape4] | None:
    """The position of the operand of a Pad in a tile, and its extents there; None where there is only padding."""
    parts = _sources(node, tile)
    if any(stop <= start for start, stop in parts):
        return None
    n, c, h, w = (start + node.op.paddings[axis] - tile.range("nchw"[axis])[0] for axis, (start, _) in enumerate(parts))
    sizes = [stop - start for start, stop in parts]
    return (n, c, h, w), (sizes[0], sizes[1], sizes[2], sizes[3])


def _sources(node: Node, tile: Tile) -> Ranges:
    """The operand part of a Pad's tile along each axis; empty where there is only padding."""
    parts: Ranges = []
    for axis, (before, extent) in enumerate(zip(node.op.paddings[:4], node.operand_types[0].dims, strict=True)):
        start, stop = tile.range("nchw"[axis])
        low = min(max(start - before, 0), extent)
        parts.append((low, max(min(stop - before, extent), low)))
    return parts
