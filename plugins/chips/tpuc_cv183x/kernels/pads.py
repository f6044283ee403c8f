"""Elements around tensors: constants around images and behind channels in local memory, everything else by copies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

from tpuc.api import Box, KernelChoice, Layouts, MoveKernel, Node, Phase, PlacedTile, Space, Tile, TileKernel, View
from tpuc_ops.tpu.pad import Pad

from tpuc_cv183x.assembler import Cv183xAssembler
from tpuc_cv183x.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar
from tpuc_cv183x.kernels.common import Pair, parallel_axes, tile_shape
from tpuc_cv183x.kernels.copies import Copy, dense_strides
from tpuc_cv183x.kernels.shape import CopyKernel
from tpuc_cv183x.operands import is_computable, operand

_SPATIAL = (1, 2, 3)
Segment: TypeAlias = tuple[int, int, int, int]
"""Start in the result, extent, start in the operand, step there."""


class PadKernel(CopyKernel):
    """The operand is copied into place; every border is filled or copied by itself, so nothing is written twice."""

    def refuse(self, node: Node) -> str | None:
        if not is_computable(node.result_type.storage):
            return f"int8, uint8 and bf16 only, this one has {node.result_type.storage}"
        return super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        return _constant_borders(node) if node.op.mode == "constant" else _repeated_borders(node)


def _constant_borders(node: Node) -> list[Copy]:
    dims, source = node.result_type.dims, node.operand_types[0].dims
    rank = len(dims)
    before, after = node.op.paddings[:rank], node.op.paddings[rank:]
    target, strides = dense_strides(dims), dense_strides(source)
    kept = tuple(extent + min(b, 0) + min(a, 0) for extent, b, a in zip(source, before, after, strict=True))
    first = sum(max(-b, 0) * stride for b, stride in zip(before, strides, strict=True))
    start = [max(b, 0) for b in before]
    parts = [Copy(0, kept, first, strides, _offset(start, target), target)]
    # What is left of the result shrinks to the operand's place, dimension by dimension.
    low, extent = [0] * rank, list(dims)
    for axis in range(rank):
        for at, size in ((0, max(before[axis], 0)), (start[axis] + kept[axis], max(after[axis], 0))):
            if size:
                place = [*low[:axis], at, *low[axis + 1 :]]
                shape = (*extent[:axis], size, *extent[axis + 1 :])
                parts.append(Copy(0, shape, 0, (0,) * rank, _offset(place, target), target, node.op.val))
        low[axis], extent[axis] = start[axis], kept[axis]
    return parts


def _repeated_borders(node: Node) -> list[Copy]:
    """Of edges and mirrors: every combination of the segments of the dimensions is a copy."""
    dims, source = node.result_type.dims, node.operand_types[0].dims
    rank, mirrored = len(dims), node.op.mode == "reflect"
    target, strides = dense_strides(dims), dense_strides(source)
    axes = [
        _segments(extent, node.op.paddings[axis], node.op.paddings[rank + axis], mirrored=mirrored)
        for axis, extent in enumerate(source)
    ]
    parts: list[Copy] = []
    for segments in itertools.product(*axes):
        starts, shape, firsts, steps = zip(*segments, strict=True)
        source_steps = tuple(step * stride for step, stride in zip(steps, strides, strict=True))
        whole = [Copy(0, shape, _offset(firsts, strides), source_steps, _offset(starts, target), target)]
        for axis, step in enumerate(steps):
            if step < 0 and shape[axis] > 1:
                whole = [part for copy in whole for part in copy.split(axis)]
        parts += whole
    return parts


def _segments(extent: int, before: int, after: int, *, mirrored: bool) -> list[Segment]:
    """What one dimension of the result consists of."""
    low, high = max(-before, 0), extent + min(after, 0)
    front, behind = max(before, 0), max(after, 0)
    segments = [(front, high - low, low, 1)]
    if front:
        segments.append((0, front, low + front, -1) if mirrored else (0, front, low, 0))
    if behind:
        at = front + high - low
        segments.append((at, behind, high - 2, -1) if mirrored else (at, behind, high - 1, 0))
    return segments


def _offset(place: Sequence[int], strides: Sequence[int]) -> int:
    return sum(index * stride for index, stride in zip(place, strides, strict=True))


class LocalPadKernel(TileKernel[Pad]):
    """The result is filled with the value, then the operand is copied to its place."""

    def serves(self, node: Node) -> bool:
        """Are these constants around images, with whole channels only behind the others?"""
        paddings = node.op.paddings
        if node.op.mode != "constant" or len(paddings) != 8 or min(paddings) < 0:
            return False
        return is_computable(node.result_type.storage) and not (paddings[0] or paddings[1] or paddings[4])

    def space(self, node: Node) -> Space:
        n, c, h, w = node.result_type.dims
        a, b, d, e = node.operand_types[0].dims
        return Space(parallel_axes((n, c, h, w)), (View((a, b, d, e)),), (View((n, c, h, w)),))

    def tiling_key(self, node: Node) -> Any:
        return node.op.paddings

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        view = space.operands[0]
        assert view is not None
        ranges = [tile.range("n"), *(self._source(node, tile, axis) for axis in _SPATIAL)]
        # A tile that lies in the padding alone still reads something, which keeps the shapes legal.
        legal = [
            (start, stop) if stop > start else (min(start, extent - 1), min(start, extent - 1) + 1)
            for (start, stop), extent in zip(ranges, view.shape, strict=True)
        ]
        (a, b), (c, d), (e, f), (g, h) = legal
        return [Box((a, c, e, g), (b - a, d - c, f - e, h - g))]

    def _source(self, node: Node, tile: Tile, axis: int) -> Pair:
        """The operand's part of a tile along an axis; empty where there is only padding."""
        start, stop = tile.range("nchw"[axis])
        before, extent = node.op.paddings[axis], node.operand_types[0].dims[axis]
        low = min(max(start - before, 0), extent)
        return low, max(min(stop - before, extent), low)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv183xAssembler) -> None:
        result, x = operand(placed.result), placed.operand(0)
        shape = tile_shape(placed.tile)
        _fill(result, shape, node.op.val, asm)
        parts = [self._source(node, placed.tile, axis) for axis in _SPATIAL]
        if any(stop <= start for start, stop in parts):
            return
        _, c, h, w = (shape[0], *(stop - start for start, stop in parts))
        steps = result.strides(shape)
        offset = 0
        for axis, (start, _) in zip(_SPATIAL[1:], parts[1:], strict=True):
            first, _ = placed.tile.range("nchw"[axis])
            offset += (start + node.op.paddings[axis] - first) * steps[axis]
        source = operand(x)
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.COPY,
                shape=(shape[0], c, h, w),
                result=Operand(result.address + offset, result.dtype, steps),
                left=Operand(source.address, source.dtype, source.strides(x.shape)),
            )
        )


def _fill(target: Operand, shape: tuple[int, int, int, int], value: float, asm: Cv183xAssembler) -> None:
    """`value` everywhere: what differs from itself nowhere, or what lies between two equal bounds."""
    if not value:
        n, c, h, w = shape
        raw = Operand(target.address, DType.UINT8)
        every = (n, c, h, w * target.dtype.bytes)
        asm.record(Arithmetic(operation=ArithmeticOp.XOR, shape=every, result=raw, left=raw, right=raw))
        return
    bound = Scalar.of(value, target.dtype)
    # The largest numbers come first: what is no number becomes one of those.
    for operation in (ArithmeticOp.MAX, ArithmeticOp.MIN):
        asm.record(Arithmetic(operation=operation, shape=shape, result=target, left=target, right=bound))


class AnyPadKernel(KernelChoice[Pad]):
    """In local memory where that is possible."""

    def __init__(self) -> None:
        self._local, self._moves = LocalPadKernel(), PadKernel()

    def kernel(self, node: Node) -> TileKernel[Any] | MoveKernel[Any]:
        return self._local if self._local.serves(node) else self._moves
