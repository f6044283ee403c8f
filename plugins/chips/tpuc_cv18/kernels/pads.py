"""Pad images and trailing channels with constants in local memory; all other pads are copies in DDR."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

from tpuc.api import Box, KernelChoice, MoveKernel, Node, Phase, PlacedTile, Shape4, Space, Tile, TileKernel, View
from tpuc_chip_parts.copies import Copy, dense_strides, offset_of, padded_copies
from tpuc_chip_parts.tiles import kept_part, padded_box, tile_shape
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, DType, Operand, Scalar, Target
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.shape import DdrCopyKernel
from tpuc_cv18.operands import is_computable, operand

Segment: TypeAlias = tuple[int, int, int, int]
"""Start in the result, extent, start in the operand, step in the operand."""


class PadKernel(DdrCopyKernel):
    """Copies the operand into place and fills or copies each border separately, so that no byte is written twice."""

    def refuse(self, node: Node) -> str | None:
        if not is_computable(node.result_type.storage):
            return f"int8, uint8 and bf16 only, this one has {node.result_type.storage}"
        return super().refuse(node)

    def copies(self, node: Node) -> Sequence[Copy]:
        return padded_copies(node) if node.op.mode == "constant" else _repeated_borders(node)


def _repeated_borders(node: Node) -> list[Copy]:
    """Copies for edge and reflect padding: one for each combination of the dimensions' segments."""
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
        copy = Copy(0, shape, offset_of(firsts, strides), source_steps, offset_of(starts, target), target)
        parts += copy.forwards()
    return parts


def _segments(extent: int, before: int, after: int, *, mirrored: bool) -> list[Segment]:
    """The segments of one dimension of the result."""
    low, high = max(-before, 0), extent + min(after, 0)
    front, behind = max(before, 0), max(after, 0)
    segments = [(front, high - low, low, 1)]
    if front:
        segments.append((0, front, low + front, -1) if mirrored else (0, front, low, 0))
    if behind:
        at = front + high - low
        segments.append((at, behind, high - 2, -1) if mirrored else (at, behind, high - 1, 0))
    return segments


class LocalPadKernel(LaneKernel[tpu.Pad]):
    """Fills the result with the pad value, except channel groups that the operand covers, then copies the operand
    into it.
    """

    def serves(self, node: Node) -> bool:
        """True for constant padding of rows, columns and trailing channels of four-dimensional tensors."""
        paddings = node.op.paddings
        if node.op.mode != "constant" or len(paddings) != 8 or min(paddings) < 0:
            return False
        return is_computable(node.result_type.storage) and not (paddings[0] or paddings[1] or paddings[4])

    def space(self, node: Node) -> Space:
        n, c, h, w = node.result_type.dims
        a, b, d, e = node.operand_types[0].dims
        return Space(self.lanes.parallel_axes((n, c, h, w)), (View((a, b, d, e)),), (View((n, c, h, w)),))

    def tiling_key(self, node: Node) -> Any:
        return node.op.paddings

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        return [padded_box(node, tile)]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        result, x = operand(placed.result), placed.operand(0)
        shape = tile_shape(placed.tile)
        part = kept_part(node, placed.tile)
        self._fill(result, shape, self._full_channels(shape, part), node.op.val, asm)
        if part is None:
            return
        place, kept = part
        steps = result.strides(shape, self.target)
        source = operand(x)
        asm.record(
            Arithmetic(
                operation=ArithmeticOp.COPY,
                shape=kept,
                result=Operand(result.address + offset_of(place, steps), result.dtype, steps),
                left=Operand(source.address, source.dtype, source.strides(x.shape, self.target)),
            )
        )

    def _full_channels(self, shape: Shape4, part: tuple[Shape4, Shape4] | None) -> int:
        """Number of leading channels that the operand covers, in whole channel groups."""
        if part is None or (part[1][0], *part[1][2:]) != (shape[0], *shape[2:]):
            return 0
        channels = part[1][1]
        return channels if channels == shape[1] else channels // self.lanes.count * self.lanes.count

    def _fill(self, target: Operand, shape: Shape4, first: int, value: float, asm: Cv18Assembler) -> None:
        """Write `value` to all channels from `first` on: zero by XOR with itself, others by clamping between two equal
        bounds.
        """
        n, c, h, w = shape
        if first == c:
            return
        if value:
            strides = target.strides(shape, self.target)
            place = Operand(target.address + first // self.lanes.count * strides[1], target.dtype, strides)
            bound = Scalar.of(value, target.dtype)
            # The largest numbers come first: NaN becomes one of those.
            for operation in (ArithmeticOp.MAX, ArithmeticOp.MIN):
                rest = (n, c - first, h, w)
                asm.record(Arithmetic(operation=operation, shape=rest, result=place, left=place, right=bound))
            return
        strides = Operand(target.address, DType.UINT8).strides((n, c, h, w * target.dtype.bytes), self.target)
        raw = Operand(target.address + first // self.lanes.count * strides[1], DType.UINT8, strides)
        every = (n, c - first, h, w * target.dtype.bytes)
        asm.record(Arithmetic(operation=ArithmeticOp.XOR, shape=every, result=raw, left=raw, right=raw))


class AnyPadKernel(KernelChoice[tpu.Pad]):
    """Chooses padding in local memory where possible, else copies in DDR."""

    def __init__(self, target: Target) -> None:
        self._local, self._moves = LocalPadKernel(target), PadKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler] | MoveKernel[Any]:
        return self._local if self._local.serves(node) else self._moves
