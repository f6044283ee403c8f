"""Depthwise convolution with a few filter values beyond 8 bits: affected channel groups read duplicated rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from tpuc.api import Node, PackedConstant, Phase, PlacedTile, Scratch, Space, Tile
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, ChannelBlock, Depthwise, DType, Operand
from tpuc_cv18.isa.geometry import EU_BYTES, round_up
from tpuc_cv18.isa.types import Shape4
from tpuc_cv18.kernels.activation import emit_limit
from tpuc_cv18.kernels.depthwise import DepthwiseConvKernel, has_bias
from tpuc_cv18.kernels.packing import channel_blocks, pack_planes
from tpuc_cv18.kernels.pieces import (
    behind_each_other,
    block_bytes,
    from_group,
    most_block_bytes,
    pieces_of,
    wide_inputs,
)


class WideDepthwiseConvKernel(DepthwiseConvKernel):
    """Depthwise convolution of one image with filters of up to nine bits; `wide` lists the values beyond 8 bits.

    A channel group with such values is convolved over duplicated rows, with half of each value per copy.
    """

    def filter_type(self, node: Node) -> DType:
        return DType.INT8

    def tiling_key(self, node: Node) -> Hashable:
        return super().tiling_key(node), node.op.wide

    def space(self, node: Node) -> Space:
        space = super().space(node)
        axes = [dataclasses.replace(axis, limit=1) if axis.name == "n" else axis for axis in space.axes]
        operands = (space.operands[0], *(None for _ in space.operands[1:]))
        return dataclasses.replace(space, axes=tuple(axes), operands=operands)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("filter", ("c",)), PackedConstant("block", ("c",)))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        """An upper bound for a tile of that size at any position."""
        lanes, groups = super().constant_shape(node, "filter", tile)[0], self.lanes.slots_of(tile.size("c"))
        if name == "block":
            return lanes, most_block_bytes(node, tile, self.lanes, has_bias=has_bias(node))
        once, twice = _filter_bytes(node, 1), _filter_bytes(node, 2)
        return lanes, groups * once + min(groups, len(wide_inputs(node, self.lanes))) * (twice - once)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return behind_each_other(self._parts(node, name, tile, arrays), self.constant_shape(node, name, tile))

    def _parts(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Iterator[Array]:
        filters, bias = self.filter_array(node, arrays), arrays[2]
        for piece in pieces_of(node, tile, self.lanes):
            c0, c1 = piece.channels(tile, self.lanes)
            if name == "filter":
                own = filters[c0:c1, 0]
                rows = np.stack([own // 2, (own + 1) // 2], 2) if piece.inputs else own
                yield pack_planes(self.lanes, rows.astype(np.int8).reshape(c1 - c0, -1))
            else:
                sums = None if bias is None or not has_bias(node) else bias.reshape(-1)[c0:c1]
                yield channel_blocks(self.lanes, sums, *self.product(node).requantization((c0, c1)))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        product = self.product(node)
        sizes = [(tile.size(name) - 1) * stride for name, stride in zip("hw", product.strides, strict=True)]
        rows, columns = (
            min(whole, size + extent)
            for whole, size, extent in zip(product.input.shape[2:], sizes, product.extent, strict=True)
        )
        return (Scratch("rows", self.planes_bytes((1, 1, 2 * rows, columns))),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        x, result = placed.operand(0), placed.result
        whole = self.command(node, placed)
        block, filters = placed.constants["block"].address, placed.constants["filter"].address
        for piece in pieces_of(node, placed.tile, self.lanes):
            c0, c1 = piece.channels(placed.tile, self.lanes)
            command = dataclasses.replace(
                whole,
                result=from_group(whole.result, result.shape, piece.first, self.target),
                result_shape=(1, c1 - c0, *result.shape[2:]),
                input=from_group(whole.input, x.shape, piece.first, self.target),
                weight=Operand(filters, DType.INT8),
                block=ChannelBlock(block, has_bias(node)),
            )
            if piece.inputs:
                command = self._over_repeated_rows(command, placed, asm)
            asm.record(command)
            groups = piece.end - piece.first
            block += block_bytes(groups, has_bias=has_bias(node))
            filters += groups * _filter_bytes(node, 2 if piece.inputs else 1)
        emit_limit(node, result, asm)

    def _over_repeated_rows(self, command: Depthwise, placed: PlacedTile, asm: Cv18Assembler) -> Depthwise:
        """Duplicate the rows, and return the command that convolves them."""
        rows, columns = command.input_size
        channels = command.result_shape[1]
        shape: Shape4 = (1, channels, rows, columns)
        twice = Operand(placed.scratch["rows"].address, command.input.dtype)
        n, c, h, w = twice.strides((1, channels, 2 * rows, columns), self.target)
        for part in range(2):
            target = Operand(twice.address + part * h, twice.dtype, (n, c, 2 * h, w))
            asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=shape, result=target, left=command.input))
        top, left, bottom, right = command.pads
        return dataclasses.replace(
            command,
            input=twice,
            input_size=(2 * rows, columns),
            kernel=(2 * command.kernel[0], command.kernel[1]),
            stride=(2 * command.stride[0], command.stride[1]),
            pads=(2 * top, left, 2 * bottom, right),
        )


def _filter_bytes(node: Node, count: int) -> int:
    return round_up(count * node.op.window().taps, EU_BYTES)
