"""What the BM1684X kernels share: limits of the command fields, sliding windows."""

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
    View,
    elementwise_view,
    window,
)
from tpuc_ops.integers import zero_point

from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.operands import MAX_EXTENT

Pair: TypeAlias = tuple[int, int]

MAX_WINDOW_STEP = 15  # 4-bit pads, strides, inserted zeros


def views_of(node: Node) -> tuple[tuple[View, ...], View]:
    """Element-wise views of all operands, aligned at the last dimensions as broadcasting does, and of the result."""
    result = node.result_type.dims
    views = [View(_aligned(type_.dims, len(result))) for type_ in node.operand_types]
    return tuple(views), View(elementwise_view(result))


def _aligned(shape: Sequence[int], rank: int) -> Shape4:
    return elementwise_view((1,) * (rank - len(shape)) + tuple(shape))


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


def window_refusal(strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int] = (1, 1)) -> str | None:
    """The refusal for sliding windows beyond the 4-bit fields."""
    if max(strides) > MAX_WINDOW_STEP:
        return f"stride at most {MAX_WINDOW_STEP}, this one is {max(strides)}"
    if max(pads) > MAX_WINDOW_STEP:
        return f"padding at most {MAX_WINDOW_STEP}, this one is {max(pads)}"
    if max(dilations) > MAX_WINDOW_STEP + 1:
        return f"dilation at most {MAX_WINDOW_STEP + 1}, this one is {max(dilations)}"
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
