"""What the CV183x kernels share: limits of the command fields, spaces, sliding windows."""

from __future__ import annotations

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
    Uniform,
    View,
    broadcast_views,
    elementwise_view,
    window,
)
from tpuc_ops.window import Window

from tpuc_cv183x.isa.geometry import LANES
from tpuc_cv183x.operands import MAX_EXTENT, is_computable

Pair: TypeAlias = tuple[int, int]

_SMALL_PLANE = 16  # a lane works on 16 elements at once
MAX_WINDOW_STEP = 15  # 4-bit pads, strides, inserted zeros
MAX_PLANE = 2048  # elements of a flat row that a tile takes at most


def views_of(node: Node) -> tuple[tuple[View, ...], View]:
    """Element-wise views of all operands, aligned at the last dimensions as broadcasting does, and of the result.

    An operand of one channel beside a result of more is loaded into all lanes: its channels have stride 0.
    """
    *shapes, result = broadcast_views([type_.dims for type_ in node.operand_types], node.result_type.dims)
    views: list[View] = []
    for shape in shapes:
        if shape[1] == 1 < result[1]:
            n, _, h, w = shape
            views.append(View((n, result[1], h, w), (h * w, 0, w, 1)))
        else:
            views.append(View(shape))
    return tuple(views), View(result)


def parallel_axes(
    shape: Shape4, order: str = "nchw", limits: tuple[int, int] = (MAX_EXTENT, MAX_EXTENT)
) -> tuple[Axis, ...]:
    """Parallel axes over a result's dimensions. Channels are cut at lane count; `limits`: rows, columns of a tile."""
    axes: list[Axis] = []
    for name in order:
        size = shape["nchw".index(name)]
        limit = {"h": limits[0], "w": limits[1]}.get(name, MAX_EXTENT)
        axes.append(Axis(name, size, granularity=LANES if name == "c" else 1, limit=limit))
    return tuple(axes)


def element_refusal(node: Node) -> str | None:
    """The refusal of element types that compute commands do not know, and of zero points."""
    for type_ in (*node.operand_types, node.result_type):
        if type_.shape is None:
            continue
        if not is_computable(type_.storage):
            return f"int8, uint8 and bf16 only, this one has {type_.storage}"
        if isinstance(type_.element, Uniform) and type_.element.zero_point:
            return f"zero points must be 0, this one is {type_.element.zero_point}"
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
    if max(window.extents) > MAX_EXTENT:
        return f"a window of at most {MAX_EXTENT}, this one is {max(window.extents)}"
    return None


def window_limits(extent: Pair, strides: Sequence[int]) -> Pair:
    """Result rows and columns of a tile whose input still fits the size fields."""
    rows, columns = (
        max(1, min(MAX_EXTENT, (MAX_EXTENT - size) // stride)) for size, stride in zip(extent, strides, strict=True)
    )
    return rows, columns


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


def elementwise_space(node: Node, width_limit: int = MAX_EXTENT) -> Space:
    """The space of an op without reductions."""
    operands, result = views_of(node)
    return Space(parallel_axes(result.shape, limits=(MAX_EXTENT, width_limit)), operands, (result,))


def flat_space(node: Node, width_limit: int = MAX_EXTENT) -> Space:
    """As `elementwise_space`, for ops to which every element is like every other.

    Tensors of one shape that fill the lanes badly lie in long rows over the lanes instead.
    """
    shapes = {type_.dims for type_ in (*node.operand_types, node.result_type)}
    _, c, h, w = elementwise_view(node.result_type.dims)
    poor = h * w < _SMALL_PLANE or c < LANES // 2
    view = _rows(node.result_type.size) if len(shapes) == 1 and poor else None
    if view is None:
        return elementwise_space(node, width_limit)
    axes = parallel_axes(view.shape, limits=(MAX_EXTENT, width_limit))
    return Space(axes, (view,) * len(node.operand_types), (view,))


def _rows(size: int) -> View | None:
    """All elements as equal rows for most of the lanes, None when the size does not divide so."""
    lanes = next((count for count in range(LANES, LANES // 2, -1) if size % count == 0), None)
    return None if lanes is None else View((1, lanes, 1, size // lanes))


def tile_shape(tile: Tile) -> Shape4:
    """Extents of a result's part."""
    return (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))


def types_refusal(types: Sequence[TensorType], limit: int) -> str | None:
    """The refusal for extents that no command can step over."""
    for type_ in types:
        if any(extent > limit for extent in type_.dims):
            return f"at most {limit} per dimension, this tensor is {'x'.join(map(str, type_.dims))}"
    return None
