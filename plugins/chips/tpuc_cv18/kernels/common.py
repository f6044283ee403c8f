"""Code shared by kernels: base class, views, tile spaces, refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tpuc.api import (
    Node,
    Op,
    Shape4,
    Space,
    TensorType,
    TileKernel,
    Uniform,
    View,
    broadcast_views,
    elementwise_view,
)
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Target
from tpuc_cv18.lmem import Cv18Lmem
from tpuc_cv18.operands import MAX_EXTENT, MAX_STEP, is_computable

OpT = TypeVar("OpT", bound=Op)
_SMALL_PLANE = 16  # a lane processes 16 elements at once
_BYTE_BITS = 8


class LaneKernel(TileKernel[OpT, Cv18Assembler]):
    """Base of tile kernels, with the lanes of their chip."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.lanes = Lanes(target.lanes, MAX_EXTENT, MAX_STEP, target.largest_insert, target.largest_stride)

    def planes_bytes(self, shape: Shape4, item_bytes: int = 1) -> int:
        """Bytes per lane of one plane of a tensor, for all batches, channel groups and rows."""
        return Cv18Lmem(self.target).tensor_bytes("aligned", shape, item_bytes)


def views_of(node: Node) -> tuple[tuple[View, ...], View]:
    """Elementwise views of all operands and of the result, aligned at the last dimensions as in broadcasting.

    An operand with one channel, when the result has more, is loaded into all lanes: its channel stride is 0.
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


def element_refusal(node: Node, *, points: bool = False) -> str | None:
    """The refusal of element types that compute commands do not support, and of zero points unless `points` allows
    them; None if all are supported.
    """
    for type_ in (*node.operand_types, node.result_type):
        if type_.shape is None:
            continue
        if not is_computable(type_.storage):
            return f"int8, uint8 and bf16 only, this one has {type_.storage}"
        if not points and isinstance(type_.element, Uniform) and type_.element.zero_point:
            return f"zero points must be 0, this one is {type_.element.zero_point}"
    return None


def elementwise_space(lanes: Lanes, node: Node, width_limit: int = MAX_EXTENT) -> Space:
    """Tile space of an op without reductions."""
    operands, result = views_of(node)
    return Space(lanes.parallel_axes(result.shape, limits=(MAX_EXTENT, width_limit)), operands, (result,))


def flat_space(lanes: Lanes, node: Node, width_limit: int = MAX_EXTENT) -> Space:
    """Like `elementwise_space`, for ops that treat all elements alike.

    Tensors of one shape that fill the lanes poorly are viewed as long rows distributed over the lanes instead. On a
    chip with two lanes, one lane is enough for floats without a table, which take few cycles compared with their
    transfers.
    """
    types = (*node.operand_types, node.result_type)
    shapes = {type_.dims for type_ in types}
    _, c, h, w = elementwise_view(node.result_type.dims)
    is_slow = isinstance(node.op, tpu.Lut) or all(type_.storage.bits == _BYTE_BITS for type_ in types)
    fewest = 2 if is_slow else 1
    poor = h * w < _SMALL_PLANE or c < max(lanes.count // 2, fewest)
    view = lanes.rows(node.result_type.size) if len(shapes) == 1 and poor else None
    if view is None:
        return elementwise_space(lanes, node, width_limit)
    axes = lanes.parallel_axes(view.shape, limits=(MAX_EXTENT, width_limit))
    return Space(axes, (view,) * len(node.operand_types), (view,))


def types_refusal(types: Sequence[TensorType], limit: int) -> str | None:
    """The refusal of extents above `limit`, None if all fit."""
    for type_ in types:
        if any(extent > limit for extent in type_.dims):
            return f"at most {limit} per dimension, this tensor is {'x'.join(map(str, type_.dims))}"
    return None
