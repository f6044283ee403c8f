"""Deinterleave bytes: colors of packed pixels, and planes of frames."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Box, Node, Phase, PlacedTile, Space, Tile, View
from tpuc_ops import tpu
from tpuc_ops.shapes import slice_ranges

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, Operand
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.operands import MAX_EXTENT, operand

_MOST_BYTES = 4
"""Maximum bytes per pixel; of more, too many would be loaded in vain."""
_RANK = 4
_FEWEST_PLACES = 1 << 12
"""Fewer pixels are copied in DDR as quickly."""


class PickKernel(LaneKernel[tpu.Slice]):
    """Loads pixels in dense rows over the lanes, where single bytes would be separate transfers, then copies with a
    stride in local memory.
    """

    def serves(self, node: Node[tpu.Slice]) -> bool:
        """True for such a slice with enough pixels."""
        (source, result), size = (node.operand_types[0], node.result_type), node.operand_types[0].dims[-1]
        return (
            2 <= size <= _MOST_BYTES
            and result.dims == (*source.dims[:-1], 1)
            and source.storage.bits == 8
            and source.storage == result.storage
            and result.size >= _FEWEST_PLACES
            and self.lanes.rows(result.size) is not None
        )

    def space(self, node: Node) -> Space:
        view = self.lanes.rows(node.result_type.size)
        assert view is not None
        _, lanes, _, width = view.shape
        source = View((1, lanes, 1, width * node.operand_types[0].dims[-1]))
        return Space(self.lanes.parallel_axes(view.shape, limits=(MAX_EXTENT, MAX_EXTENT)), (source,), (view,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        size = node.operand_types[0].dims[-1]
        (c0, c1), (w0, w1) = (tile.range(name) for name in "cw")
        return [Box((0, c0, 0, w0 * size), (1, c1 - c0, 1, (w1 - w0) * size))]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        _copy_every(node, placed, node.operand_types[0].dims[-1], asm)


class ColumnKernel(LaneKernel[tpu.Slice]):
    """Copies every second, third or fourth byte of rows that fill all lanes; rows are loaded whole."""

    def serves(self, node: Node[tpu.Slice]) -> bool:
        """True for such a slice."""
        (source, result), rank = (node.operand_types[0], node.result_type), len(node.result_type.dims)
        if rank != _RANK or source.storage.bits != 8 or source.storage != result.storage:
            return False
        step = source.dims[-1] // result.dims[-1]
        return (
            2 <= step <= _MOST_BYTES
            and source.dims == (*result.dims[:-1], step * result.dims[-1])
            and slice_ranges(source.dims, node.op.offset, node.op.steps, result.dims)[-1].step == step
            and result.dims[1] >= self.lanes.count
            and max(source.dims) <= MAX_EXTENT
        )

    def space(self, node: Node) -> Space:
        (n, c, h, w), source = node.result_type.dims, node.operand_types[0].dims
        return Space(self.lanes.parallel_axes((n, c, h, w)), (View((n, c, h, source[3])),), (View((n, c, h, w)),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        step = node.operand_types[0].dims[-1] // node.result_type.dims[-1]
        (n0, n1), (c0, c1), (h0, h1), (w0, w1) = (tile.range(name) for name in "nchw")
        return [Box((n0, c0, h0, w0 * step), (n1 - n0, c1 - c0, h1 - h0, (w1 - w0) * step))]

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        _copy_every(node, placed, node.operand_types[0].dims[-1] // node.result_type.dims[-1], asm)


def _copy_every(node: Node, placed: PlacedTile, step: int, asm: Cv18Assembler) -> None:
    """Copy every `step`-th byte, starting with the slice's first one."""
    x, result = placed.operand(0), placed.result
    dims = node.operand_types[0].dims
    first = slice_ranges(dims, node.op.offset, node.op.steps, node.result_type.dims)[-1].start
    whole = operand(x)
    n, c, h, _ = whole.strides(x.shape, asm.target)
    every = Operand(whole.address + first, whole.dtype, (n, c, h, step))
    asm.record(
        Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=operand(result), left=every),
    )
