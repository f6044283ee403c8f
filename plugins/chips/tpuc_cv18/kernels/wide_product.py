"""Convolution with a few filter values beyond 8 bits: the excess is added to the sums of affected channel groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from tpuc.api import Node, PackedConstant, Phase, PlacedTile, Scratch, Space, Tile
from tpuc_chip_parts.tiles import Product
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Arithmetic, ArithmeticOp, ChannelBlock, Conv, DType, Layout, Operand, PartialSum
from tpuc_cv18.isa.geometry import EU_BYTES, lane_address, round_up
from tpuc_cv18.kernels.activation import emit_limit
from tpuc_cv18.kernels.packing import channel_blocks, pack_filter, pack_planes
from tpuc_cv18.kernels.pieces import (
    Piece,
    behind_each_other,
    block_bytes,
    from_group,
    most_block_bytes,
    moved,
    pieces_of,
    wide_inputs,
)
from tpuc_cv18.kernels.product import ConvKernel
from tpuc_cv18.operands import operand

_LOW, _HIGH = -128, 127


class WideConvKernel(ConvKernel):
    """Convolution of one image with filters of up to nine bits; `wide` lists the values beyond 8 bits.

    An output channel group with such values takes one command for each affected input channel with the excess, and one
    with the 8-bit parts of all channels, which continues the sums. Other groups take one command.
    """

    def filter_type(self, node: Node) -> DType:
        return DType.INT8

    def tiling_key(self, node: Node) -> Hashable:
        return super().tiling_key(node), node.op.wide

    def space(self, node: Node) -> Space:
        space = super().space(node)
        axes = {axis.name: axis for axis in space.axes}
        axes["n"] = dataclasses.replace(axes["n"], limit=1)
        axes["k"] = dataclasses.replace(axes["k"], granularity=axes["k"].size)
        return dataclasses.replace(space, axes=tuple(axes.values()))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (*super().constants(node), PackedConstant("rest", ("c",)))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        """An upper bound for a tile of that size at any position."""
        product, lanes = self.product(node), min(tile.size("c"), self.lanes.count)
        if name == "block":
            return lanes, most_block_bytes(node, tile, self.lanes, has_bias=product.has_bias)
        if name == "rest":
            return lanes, sum(map(len, wide_inputs(node, self.lanes).values())) * _rest_bytes(product)
        return super().constant_shape(node, name, tile)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        filters = self.filter_array(node, arrays)
        near = np.clip(filters, _LOW, _HIGH).astype(np.int8)
        if name == "filter":
            return pack_filter(self.lanes, near[slice(*tile.range("c"))], self.depth(node, filters.shape[1]))
        parts = self._parts(node, name, tile, arrays, (filters - near).astype(np.int8))
        return behind_each_other(parts, self.constant_shape(node, name, tile))

    def _parts(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None], rest: Array) -> Iterator[Array]:
        product, bias = self.product(node), arrays[2]
        for piece in pieces_of(node, tile, self.lanes):
            c0, c1 = piece.channels(tile, self.lanes)
            if name == "rest":
                for channel in piece.inputs:
                    yield pack_planes(self.lanes, rest[c0:c1, channel].reshape(c1 - c0, -1))
            else:
                own = None if bias is None or not product.has_bias else bias.reshape(-1)[c0:c1]
                yield channel_blocks(self.lanes, own, *product.requantization((c0, c1)))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (1, 1, tile.size("h"), tile.size("w"))
        return (Scratch("sums", 4 * self.planes_bytes(shape)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        product, tile, result = self.product(node), placed.tile, placed.result
        whole = self.command(node, product, placed, operand(result), phase)
        taps = product.kernel[0] * product.kernel[1]
        block, rest = placed.constants["block"].address, placed.constants["rest"].address
        for piece in pieces_of(node, tile, self.lanes):
            c0, c1 = piece.channels(tile, self.lanes)
            shape = (1, c1 - c0, *result.shape[2:])
            command = dataclasses.replace(
                whole,
                result=from_group(whole.result, result.shape, piece.first, self.target),
                result_shape=shape,
                weight=moved(whole.weight, piece.first * whole.input_shape[0] * taps),
                block=ChannelBlock(block, product.has_bias),
            )
            if piece.inputs:
                sums = Operand(placed.scratch["sums"].address, DType.INT8)
                self._emit_rests(command, piece, product, placed, (sums, rest), asm)
            else:
                asm.record(command)
            block += block_bytes(piece.end - piece.first, has_bias=product.has_bias)
            rest += len(piece.inputs) * _rest_bytes(product)
        emit_limit(node, result, asm)

    def _emit_rests(
        self,
        command: Conv,
        piece: Piece,
        product: Product,
        placed: PlacedTile,
        places: tuple[Operand, int],
        asm: Cv18Assembler,
    ) -> None:
        """Accumulate the excess, then the 8-bit parts; copy the result from the sums to its place."""
        sums, rest = places
        x = placed.operand(0)
        for index, channel in enumerate(piece.inputs):
            group, lane = divmod(channel, self.lanes.count)
            source = from_group(command.input, x.shape, group, self.target)
            asm.record(
                dataclasses.replace(
                    command,
                    result=sums,
                    input=moved(source, lane_address(lane, 0)),
                    input_shape=(1, *x.shape[2:]),
                    weight=Operand(rest + index * _rest_bytes(product), DType.INT8, Layout.COMPACT),
                    block=None,
                    relu=False,
                    partial=PartialSum.MIDDLE if index else PartialSum.FIRST,
                    double=False,
                )
            )
        total = Operand(sums.address, command.result.dtype)
        asm.record(dataclasses.replace(command, result=total, partial=PartialSum.LAST))
        asm.record(
            Arithmetic(operation=ArithmeticOp.COPY, shape=command.result_shape, result=command.result, left=total)
        )


def _rest_bytes(product: Product) -> int:
    return round_up(product.kernel[0] * product.kernel[1], EU_BYTES)
