"""Depthwise convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    ABSENT,
    Box,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Space,
    Tile,
    View,
)
from tpuc_chip_parts.tiles import PerChannelKernel
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import ChannelBlock, Depthwise, DType, Operand
from tpuc_cv18.isa.geometry import EU_BYTES, round_up
from tpuc_cv18.kernels.activation import emit_limit, has_relu
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.float_sums import gives_floats
from tpuc_cv18.kernels.packing import (
    BLOCK_BYTES,
    BLOCK_WITH_BIAS_BYTES,
    channel_blocks,
    pack_bias,
    pack_planes,
)
from tpuc_cv18.kernels.product import convolution_refusal, padding_value
from tpuc_cv18.operands import dtype_of, operand

_FEW_LANES = 8
_COMMAND_BYTES = 128
"""Cost of a separate load of filters, in bytes, including its consequences."""


class DepthwiseConvKernel(LaneKernel[Any], PerChannelKernel[Cv18Assembler]):
    """Convolution with one filter per channel; the epilogue is that of a full convolution.

    In local memory each filter starts at a vector. On chips with few lanes, filters are a dense tensor in DDR, which a
    separate command loads.
    """

    def refuse(self, node: Node) -> str | None:
        if gives_floats(node):
            return "a depthwise convolution of integers has no float result"
        return convolution_refusal(self.lanes, node)

    def space(self, node: Node) -> Space:
        product = self.product(node)
        operands: list[View | None] = [None] * len(node.operand_types)
        operands[0] = product.input
        if self.loads_filters(node):
            operands[1] = View((1, product.input.shape[1], 1, node.op.window().taps))
        limits = self.lanes.window_limits(product.extent, product.strides)
        axes = self.lanes.parallel_axes(product.output.shape, "cnhw", limits=limits)
        return Space(axes, tuple(operands), (product.output,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes = [*super().reads(node, space, tile)]
        filters = space.operands[1]
        if filters is not None:
            c0, c1 = tile.range("c")
            boxes[1] = Box((0, c0, 0, 0), (1, c1 - c0, 1, filters.shape[3]))
        return boxes

    def loads_filters(self, node: Node) -> bool:
        """True when the padding between packed filters exceeds the cost of a load command."""
        taps = node.op.window().taps * _item_bytes(node)
        saved = node.result_type.dims[1] * (round_up(taps, EU_BYTES) - taps)
        return self.lanes.count <= _FEW_LANES and saved > _COMMAND_BYTES

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        names = [] if self.loads_filters(node) else [PackedConstant("filter", ("c",))]
        if node.op.multiplier:
            names.append(PackedConstant("block", ("c",)))
        elif has_bias(node):
            names.append(PackedConstant("bias", ("c",)))
        return names

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        taps = node.op.window().taps * _item_bytes(node)
        block = BLOCK_WITH_BIAS_BYTES if has_bias(node) else BLOCK_BYTES
        size = {"filter": round_up(taps, EU_BYTES), "bias": 4, "block": block}[name]
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * size

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        c0, c1 = tile.range("c")
        channels = node.result_type.dims[1]
        if name == "filter":
            return pack_planes(self.lanes, self.filter_array(node, arrays).reshape(channels, -1)[c0:c1])
        bias = arrays[2].reshape(-1)[c0:c1] if has_bias(node) and arrays[2] is not None else None
        if name == "bias":
            assert bias is not None
            return pack_bias(self.lanes, bias)
        return channel_blocks(self.lanes, bias, *self.product(node).requantization((c0, c1)))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        asm.record(self.command(node, placed))
        emit_limit(node, placed.result, asm)

    def command(self, node: Node, placed: PlacedTile) -> Depthwise:
        """The command of one tile."""
        product = self.product(node)
        x, result = placed.operand(0), placed.result
        block, bias = placed.constants.get("block"), placed.constants.get("bias")
        filters = placed.constants.get("filter") or placed.operand(1)
        return Depthwise(
            result=operand(result),
            result_shape=result.shape,
            input=operand(x),
            input_size=(x.shape[2], x.shape[3]),
            weight=Operand(filters.address, self.filter_type(node)),
            kernel=product.kernel,
            stride=product.strides,
            pads=x.padding,
            pad_value=padding_value(node, x.padding),
            dilation=product.dilations,
            insert=product.inserts,
            block=ChannelBlock(block.address, has_bias(node)) if block is not None else None,
            bias=bias.address if bias is not None else None,
            relu=has_relu(node),
        )

    def filter_type(self, node: Node) -> DType:
        """The element type of the filters in the command."""
        return dtype_of(node.operand_types[1].storage)


def _item_bytes(node: Node) -> int:
    return node.operand_types[0].storage.bits // 8


def has_bias(node: Node) -> bool:
    """True when the node has a bias."""
    return node.operand_types[2] is not ABSENT
