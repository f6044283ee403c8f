"""Code shared by BM1684X kernels: limits of command fields, sliding windows, tile spaces."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpuc.api import (
    Box,
    Candidate,
    Node,
    Shape4,
    Space,
    TensorType,
    Tile,
    TileKernel,
    View,
    broadcast_views,
    elementwise_view,
)
from tpuc_chip_parts.lanes import Lanes
from tpuc_ops.integers import zero_point
from tpuc_ops.shapes import positive_axis

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT

_SMALL_PLANE = 16  # a lane processes 16 to 64 elements at once; transfers to it cost by the row
SHORT_RUN = 128  # bytes; half the minimum cost of a run
FEW_LANES = 16  # computing in so few lanes takes longer than the transfers
MAX_WINDOW_STEP = 15  # 4-bit pads, strides, inserted zeros


@functools.cache
def lanes_of(target: Target) -> Lanes:
    """The lanes of a chip, with the limits of command fields."""
    return Lanes(target.lanes, MAX_EXTENT, MAX_WINDOW_STEP, MAX_WINDOW_STEP, MAX_WINDOW_STEP)


ACROSS_LANES = lanes_of(BM1684X)
parallel_axes, window_refusal, window_limits = (
    ACROSS_LANES.parallel_axes,
    ACROSS_LANES.window_refusal,
    ACROSS_LANES.window_limits,
)


class OfChip:
    """A kernel with the chip that it is for."""

    def __init__(self, target: Target = BM1684X) -> None:
        self.target = target
        self.lanes = lanes_of(target)
        self.lmem = Bm1684xLmem(target)


def views_of(node: Node) -> tuple[tuple[View, ...], View]:
    """Elementwise views of all operands and of the result, aligned at the last dimensions as in broadcasting."""
    *views, result = broadcast_views([type_.dims for type_ in node.operand_types], node.result_type.dims)
    return tuple(map(View, views)), View(result)


def too_large(types: Sequence[TensorType]) -> str | None:
    """The refusal of extents beyond the command fields, None if all fit."""
    for type_ in types:
        extents = elementwise_view(type_.dims)
        if (len(type_.dims) > 4 and extents[3] > MAX_EXTENT) or any(extent > MAX_EXTENT for extent in type_.dims):
            return f"at most {MAX_EXTENT} per dimension, this tensor is {'x'.join(map(str, type_.dims))}"
    return None


def reduced_axes(node: Node) -> list[int]:
    """The axes of a Reduce, in ascending order."""
    return sorted({positive_axis(axis, node.operand_types[0].rank) for axis in node.op.axes})


def apart_refusal(axes: Sequence[int]) -> str | None:
    """The refusal of axes that are not contiguous, None if they are."""
    if list(axes) != list(range(axes[0], axes[0] + len(axes))):
        return f"axes must be adjacent, these are {', '.join(map(str, axes))}; permute the tensor first"
    return None


def reduced_extents(node: Node) -> tuple[int, int, int]:
    """Number of elements of a Reduce's operand before, after and within its contiguous axes."""
    return _extents(node, reduced_axes(node))


def axis_extents(node: Node) -> tuple[int, int, int]:
    """Number of elements of the first operand before, after and along the op's axis."""
    return _extents(node, [positive_axis(node.op.axis, node.operand_types[0].rank)])


def _extents(node: Node, axes: Sequence[int]) -> tuple[int, int, int]:
    dims = node.operand_types[0].dims
    return math.prod(dims[: axes[0]]), math.prod(dims[axes[-1] + 1 :]), math.prod(dims[axes[0] : axes[-1] + 1])


def zero_point_refusal(types: Sequence[TensorType]) -> str | None:
    """The refusal of integers with zero points, None if there are none."""
    for type_ in types:
        if type_.is_quantized and zero_point(type_):
            return f"zero points must be 0, this one is {zero_point(type_)}"
    return None


def elementwise_space(node: Node, target: Target = BM1684X) -> Space:
    """Tile space of an op without reductions."""
    operands, result = views_of(node)
    return Space(lanes_of(target).parallel_axes(result.shape), operands, (result,))


def flat_space(node: Node, target: Target = BM1684X) -> Space:
    """Like `elementwise_space`, for ops that treat all elements alike.

    Tensors of one shape with small planes are viewed as long rows distributed over the lanes instead.
    """
    space = elementwise_space(node, target)
    _, _, h, w = space.results[0].shape
    shapes = {type_.dims for type_ in (*node.operand_types, node.result_type)}
    view = _rows(node.result_type.size, target) if len(shapes) == 1 and h * w < _SMALL_PLANE else None
    if view is None:
        return space
    return Space(lanes_of(target).parallel_axes(view.shape), (view,) * len(space.operands), (view,))


def spread_view(node: Node, target: Target = BM1684X) -> View | None:
    """View of few channels with large planes as parts (along n) that are rows over most of the lanes. A part is
    contiguous in DDR. None for other tensors and for broadcasts.
    """
    dims, size = node.result_type.dims, node.result_type.size
    _, c, _, _ = elementwise_space(node, target).results[0].shape
    is_alike = all(type_.dims == dims for type_ in node.operand_types)
    lanes = _rows(size, target) if c <= target.lanes // 2 and is_alike else None  # more channels occupy most lanes
    if lanes is None or lanes.shape[1] <= c:
        return None
    length = lanes.shape[3]
    parts = max(parts for parts in range(1, _MOST_PARTS + 1) if length % parts == 0)
    return View((parts, lanes.shape[1], 1, length // parts))


def _spread_space(node: Node, target: Target) -> Space | None:
    """Tile space in `spread_view`."""
    view = spread_view(node, target)
    if view is None:
        return None
    axes = lanes_of(target).parallel_axes(view.shape)
    return Space(axes, (view,) * len(node.operand_types), (view,), is_wider=True)


def matrices_view(dims: Sequence[int]) -> Shape4:
    """View of matrices used by row-wise products: matrices as batches, rows across lanes, the elements of a row
    along h.
    """
    dims = (1, 1, *dims)
    return (math.prod(dims[:-2]), dims[-2], dims[-1], 1)


def matrices_space(node: Node, target: Target = BM1684X) -> Space | None:
    """Tile space in `matrices_view` for an op without reductions; None unless all operands have the result's
    extents, or are one matrix for all.
    """
    dims = node.result_type.dims
    n, *matrix = matrices_view(dims)
    views: list[View] = []
    for type_ in node.operand_types:
        count, *own = matrices_view(type_.dims)
        if own != matrix or (count != 1 and type_.dims != dims):
            return None
        views.append(View((count, own[0], own[1], own[2])))
    if max(n, *matrix) > MAX_EXTENT:
        return None
    result = View(matrices_view(dims))
    return Space(lanes_of(target).parallel_axes(result.shape), tuple(views), (result,))


@dataclass(frozen=True)
class RepeatedSpace(Space):
    """Tile space in `matrices_view` with operands of fewer matrices. A tile has a run of `run` matrices: an operand has
    one such run for all tiles, or one matrix per tile.
    """

    run: int

    def box(self, index: int, tile: Tile) -> Box | None:
        """The part of an operand that a tile reads; None for one that has all matrices of the result."""
        view = self.operands[index]
        if view is None or view.shape[0] in (1, self.results[0].shape[0]):
            return None
        first, size = (0, self.run) if view.shape[0] == self.run else (tile.range("n")[0] // self.run, 1)
        (c0, c1), (h0, h1) = tile.range("c"), tile.range("h")
        return Box((first, c0, h0, 0), (size, c1 - c0, h1 - h0, 1))


def repeated_space(node: Node, target: Target = BM1684X) -> RepeatedSpace | None:
    """The space of an op that repeats matrices of an operand, along the first or the last of their dimensions; None for
    other broadcasts.
    """
    dims = node.result_type.dims
    outer, run, result = dims[:-3], dims[-3] if len(dims) > 2 else 1, matrices_view(dims)
    tiles = math.prod(outer)
    counts: dict[tuple[int, ...], int] = {
        (*(1,) * len(outer), run): run,
        (*outer, 1): tiles,
        (*outer, run): tiles * run,
    }
    found: list[int] = []
    for type_ in node.operand_types:
        own = (*(1,) * (len(dims) - len(type_.dims)), *type_.dims)
        count = counts.get(own[:-2]) if own[-2:] == dims[-2:] else None
        if count is None:
            return None
        found.append(count)
    if run == tiles or not {run, tiles} & {*found} or min(run, tiles) < 2 or max(result) > MAX_EXTENT:
        return None
    axes = lanes_of(target).parallel_axes(result)
    axes = tuple(replace(axis, granularity=run, limit=run) if axis.name == "n" else axis for axis in axes)
    operands = tuple(View((count, *result[1:])) for count in found)
    return RepeatedSpace(axes, operands, (View(result),), run)


_MOST_PARTS = 4  # in which few channels are spread over the lanes, one after the other
_FEW_COLUMNS = 32  # rows this short are transferred one by one when each has its own lane


def row_blocks(dims: Sequence[int], target: Target = BM1684X) -> View | None:
    """View of short rows in equal blocks over most of the lanes, with the elements of a row along w. None where rows
    are long or their number has no suitable divisor. Ops along the last dimension stay within a lane, and a block is
    contiguous in DDR.
    """
    if len(dims) < 2 or dims[-1] > _FEW_COLUMNS:
        return None
    rows = math.prod(dims[:-1])
    blocks = _rows(rows, target) if rows > target.lanes else None
    return View((1, blocks.shape[1], blocks.shape[3], dims[-1])) if blocks is not None else None


def row_blocks_space(node: Node, target: Target = BM1684X) -> Space | None:
    """Tile space in `row_blocks` for an op without reductions; None unless all operands have the result's extents, one
    element for each of its rows, or one row for all.
    """
    dims = node.result_type.dims
    view = row_blocks(dims, target)
    if view is None:
        return None
    one, blocks, rows, columns = view.shape
    known = {dims: view, (*dims[:-1], 1): View((one, blocks, rows, 1))}
    views: list[View] = []
    for type_ in node.operand_types:
        if type_.size == columns == type_.dims[-1]:
            views.append(View((1, 1, 1, columns)))
        elif type_.dims in known:
            views.append(known[type_.dims])
        else:
            return None
    return Space(lanes_of(target).parallel_axes(view.shape), tuple(views), (view,))


def elementwise_spaces(node: Node, target: Target = BM1684X) -> tuple[Space, ...]:
    """All tile spaces of an op that treats all elements alike, the best for a lone op first."""
    spaces = [flat_space(node, target)]
    others = (row_blocks_space, matrices_space, repeated_space, elementwise_space, _spread_space)
    for space in (other(node, target) for other in others):
        if space is not None and space not in spaces:
            spaces.append(space)
    return tuple(spaces)


def in_spaces(kernel: TileKernel[Any, Bm1684xAssembler], spaces: Iterable[Space]) -> Sequence[Candidate]:
    """Candidates for one kernel in several spaces."""
    return [Candidate(kernel, space) for space in spaces]


def _rows(size: int, target: Target) -> View | None:
    """View of all elements as equal rows over most of the lanes; None where there is no such division or rows are too
    long.
    """
    view = lanes_of(target).rows(size)
    return view if view is not None and view.shape[3] <= MAX_EXTENT else None
