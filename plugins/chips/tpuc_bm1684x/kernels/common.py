"""What the BM1684X kernels share: limits of the command fields, sliding windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from tpuc.api import (
    Axis,
    Box,
    Node,
    Shape4,
    Space,
    TensorType,
    Tile,
    View,
    broadcast_views,
    elementwise_view,
    window,
)
from tpuc_ops.integers import zero_point
from tpuc_ops.window import Window

from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.operands import MAX_EXTENT

Pair: TypeAlias = tuple[int, int]

_SMALL_PLANE = 16  # a lane works on 16 to 64 elements at once; transfers to it cost by the row
MAX_WINDOW_STEP = 15  # 4-bit pads, strides, inserted zeros


def views_of(node: Node) -> tuple[tuple[View, ...], View]:
    """Element-wise views of all operands, aligned at the last dimensions as broadcasting does, and of the result."""
    *views, result = broadcast_views([type_.dims for type_ in node.operand_types], node.result_type.dims)
    return tuple(map(View, views)), View(result)


def parallel_axes(shape: Shape4, order: str = "nchw", whole: str = "") -> tuple[Axis, ...]:
    """Parallel axes over a result's dimensions; those in `whole` are never cut. Channels are cut at lane count."""
    axes: list[Axis] = []
    for name in order:
        size = shape["nchw".index(name)]
        granularity = LANES if name == "c" else 1
        axes.append(Axis(name, size, granularity=size if name in whole else granularity))
    return tuple(axes)


def too_large(types: Sequence[TensorType]) -> str | None:
    """The refusal for extents beyond the command fields."""
    for type_ in types:
        extents = elementwise_view(type_.dims)
        if (len(type_.dims) > 4 and extents[3] > MAX_EXTENT) or any(extent > MAX_EXTENT for extent in type_.dims):
            return f"at most {MAX_EXTENT} per dimension, this tensor is {'x'.join(map(str, type_.dims))}"
    return None


def zero_point_refusal(types: Sequence[TensorType]) -> str | None:
    """The refusal of asymmetric integers."""
    for type_ in types:
        if type_.is_quantised and zero_point(type_):
            return f"zero points must be 0, this one is {zero_point(type_)}"
    return None


def window_refusal(window: Window, overhang: Pair = (0, 0)) -> str | None:
    """The refusal for sliding windows beyond the 4-bit fields, or with places that see nothing but padding.

    `overhang`: rows and columns that the last windows reach beyond the padding.
    """
    top, left, bottom, right = window.pads
    pads = (top, left, bottom + overhang[0], right + overhang[1])
    if max(window.strides) > MAX_WINDOW_STEP:
        return f"stride at most {MAX_WINDOW_STEP}, this one is {max(window.strides)}"
    if max(pads) > MAX_WINDOW_STEP:
        return f"padding at most {MAX_WINDOW_STEP}, this one is {max(pads)}"
    if max(window.dilations) > MAX_WINDOW_STEP + 1:
        return f"dilation at most {MAX_WINDOW_STEP + 1}, this one is {max(window.dilations)}"
    for pad, extent in zip(window.pads, window.extents * 2, strict=True):
        if pad >= extent:
            # A tile could lie in the padding alone, and there is no command for that.
            return f"padding below the window's own extent, this one is {pad} for {extent}"
    return None


def window_box(
    tile: Tile, view: View, channels: tuple[int, int], extent: Pair, strides: Sequence[int], pads: Sequence[int]
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


def elementwise_space(node: Node) -> Space:
    """The space of an op without reductions."""
    operands, result = views_of(node)
    return Space(parallel_axes(result.shape), operands, (result,))


def flat_space(node: Node) -> Space:
    """As `elementwise_space`, for ops to which every element is like every other.

    Tensors of one shape with hardly anything in each channel lie in long rows over the lanes instead.
    """
    space = elementwise_space(node)
    _, _, h, w = space.results[0].shape
    shapes = {type_.dims for type_ in (*node.operand_types, node.result_type)}
    view = _rows(node.result_type.size) if len(shapes) == 1 and h * w < _SMALL_PLANE else None
    if view is None:
        return space
    return Space(parallel_axes(view.shape), (view,) * len(space.operands), (view,))


def matrices_view(dims: Sequence[int]) -> Shape4:
    """Matrices as batches, rows across the lanes, the elements of a row along h: how products of rows see them."""
    dims = (1, 1, *dims)
    return (math.prod(dims[:-2]), dims[-2], dims[-1], 1)


def matrices_space(node: Node) -> Space | None:
    """The space of an op without reductions whose operands have the extents of its result, as matrices."""
    dims = node.result_type.dims
    if any(type_.dims != dims for type_ in node.operand_types) or max(matrices_view(dims)) > MAX_EXTENT:
        return None
    view = View(matrices_view(dims))
    return Space(parallel_axes(view.shape), (view,) * len(node.operand_types), (view,))


def elementwise_spaces(node: Node) -> tuple[Space, ...]:
    """All spaces of an op to which every element is like every other, the best for a lone op first."""
    spaces = [flat_space(node)]
    for space in (matrices_space(node), elementwise_space(node)):
        if space is not None and space not in spaces:
            spaces.append(space)
    return tuple(spaces)


def _rows(size: int) -> View | None:
    """All elements as equal rows for most of the lanes, None when the size does not divide so."""
    lanes = next((count for count in range(LANES, LANES // 2, -1) if size % count == 0), None)
    if lanes is None or size // lanes > MAX_EXTENT:
        return None
    return View((1, lanes, 1, size // lanes))
