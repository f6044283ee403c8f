"""One row of integers times a constant matrix with float output, by the matrix command."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import ABSENT, Node, PackedConstant, Phase, PlacedTile, Scratch, Tile
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa.geometry import EU_BYTES
from tpuc_cv18.kernels.activation import has_relu, upper_bound
from tpuc_cv18.kernels.byte_rows import ByteRowsKernel
from tpuc_cv18.kernels.float_sums import SUM_PLANES, FloatSums, SumPlanes, factor_rows, gives_floats, planes_of
from tpuc_cv18.kernels.packing import pack_bias, pack_planes
from tpuc_cv18.kernels.rows import padded
from tpuc_cv18.operands import MAX_EXTENT

_HALF_BYTES, _F32_BYTES = 2, 4


class FloatRowsKernel(ByteRowsKernel):
    """Accumulates in byte planes, which a depthwise convolution converts to floats: its channels are the bytes of the
    lanes, each with the scale and bias of a column.
    """

    def finishes(self, node: Node[tpu.MatMul]) -> bool:
        return gives_floats(node) and self._splits(node)[1][1] * _F32_BYTES <= MAX_EXTENT

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        constants = (PackedConstant("matrix", ("c", "k")), PackedConstant("factors", ("c",)))
        return constants if node.operand_types[2] is ABSENT else (*constants, PackedConstant("bias", ("c",)))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if name == "matrix":
            return super().constant_shape(node, name, tile)
        size = _F32_BYTES if name == "bias" else EU_BYTES
        return self.lanes.count, self.lane_bytes((tile.size("c"), self._splits(node)[1][1])) * size

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name == "matrix":
            return super().pack(node, name, tile, arrays)
        if name == "bias":
            return pack_bias(self.lanes, self.by_channel(node, tile, [arrays[2]], np.dtype(np.float32))[0])
        scales: Sequence[float] = node.op.scales
        each = scales if len(scales) > 1 else (*scales,) * self._extents(node)[2]
        by_channel = self.by_channel(node, tile, [each], np.dtype(np.float64))[0]
        return pack_planes(self.lanes, factor_rows(by_channel.tolist(), self._planes(node)))

    def _planes(self, node: Node) -> int:
        return planes_of(self._extents(node)[1])

    def _layout(self, channels: int, width: int) -> SumPlanes:
        """Layout of the sums as channels of one element."""
        return SumPlanes((1, self.lane_bytes((channels, width)) * self.lanes.count, 1, 1), self.lanes.count)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        layout = self._layout(tile.size("c"), self._splits(node)[1][1])
        halves = layout.lane_bytes(self._planes(node), _HALF_BYTES)
        return (Scratch("sums", layout.lane_bytes(SUM_PLANES)), Scratch("halves", halves))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        self.sum_up(node, placed, phase, asm)
        if not phase.ends:
            return
        _, channels, _, width = placed.result.shape
        bias, op = placed.constants.get("bias"), node.op
        row = padded(width, 1) * _HALF_BYTES
        floats = FloatSums(
            self._layout(channels, width),
            self._planes(node),
            placed.scratch["sums"].address,
            placed.scratch["halves"].address,
            placed.constants["factors"].address,
            bias.address if bias is not None else None,
            has_relu(node),
            upper_bound(node, op.relu_limit) if op.do_relu else None,
            (self.lanes.slots_of(channels) * row, row, row, _HALF_BYTES),
        )
        floats.emit(placed.result, asm)
