"""What the CV183x kernels share: limits of the command fields, spaces, sliding windows."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import (
    Axis,
    Node,
    Shape4,
    Space,
    TensorType,
    Uniform,
    View,
    broadcast_views,
    elementwise_view,
)
from tpuc_ops import tiles
from tpuc_ops.window import Pair, Window

from tpuc_cv183x.isa.geometry import LANES
from tpuc_cv183x.operands import MAX_EXTENT, is_computable

_SMALL_PLANE = 16  # a lane works on 16 elements at once
MAX_WINDOW_STEP = 15  # 4-bit pads, strides, inserted zeros


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
    refused = tiles.window_refusal(window, MAX_WINDOW_STEP, overhang)
    if refused is not None:
        return refused
    if max(window.extents) > MAX_EXTENT:
        return f"a window of at most {MAX_EXTENT}, this one is {max(window.extents)}"
    return None


def window_limits(extent: Pair, strides: Sequence[int]) -> Pair:
    """Result rows and columns of a tile whose input still fits the size fields."""
    return tiles.window_limits(extent, strides, MAX_EXTENT)


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


def types_refusal(types: Sequence[TensorType], limit: int) -> str | None:
    """The refusal for extents that no command can step over."""
    for type_ in types:
        if any(extent > limit for extent in type_.dims):
            return f"at most {limit} per dimension, this tensor is {'x'.join(map(str, type_.dims))}"
    return None
