"""What the CV183x kernels share: limits of the command fields, spaces, sliding windows."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import (
    Node,
    Space,
    TensorType,
    Uniform,
    View,
    broadcast_views,
    elementwise_view,
)
from tpuc_chip_parts.lanes import Lanes

from tpuc_cv183x.isa.geometry import LANES
from tpuc_cv183x.operands import MAX_EXTENT, is_computable

_SMALL_PLANE = 16  # a lane works on 16 elements at once
MAX_WINDOW_STEP = 15  # 4-bit pads, strides, inserted zeros
ACROSS_LANES = Lanes(LANES, MAX_EXTENT, MAX_WINDOW_STEP)
parallel_axes, window_refusal, window_limits = (
    ACROSS_LANES.parallel_axes,
    ACROSS_LANES.window_refusal,
    ACROSS_LANES.window_limits,
)


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
    view = ACROSS_LANES.rows(node.result_type.size) if len(shapes) == 1 and poor else None
    if view is None:
        return elementwise_space(node, width_limit)
    axes = parallel_axes(view.shape, limits=(MAX_EXTENT, width_limit))
    return Space(axes, (view,) * len(node.operand_types), (view,))


def types_refusal(types: Sequence[TensorType], limit: int) -> str | None:
    """The refusal for extents that no command can step over."""
    for type_ in types:
        if any(extent > limit for extent in type_.dims):
            return f"at most {limit} per dimension, this tensor is {'x'.join(map(str, type_.dims))}"
    return None
