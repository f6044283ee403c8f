"""Convolution of every channel by itself, and the choice between the kinds of convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    ABSENT,
    KernelChoice,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_chip_parts.tiles import PerChannelKernel
from tpuc_ops import tpu
from tpuc_ops.arrays import Array

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import ChannelBlock, Depthwise, Operand, Target
from tpuc_cv18.isa.geometry import EU_BYTES, round_up
from tpuc_cv18.kernels.activation import emit_limit, has_relu
from tpuc_cv18.kernels.common import LaneKernel
from tpuc_cv18.kernels.packing import (
    BLOCK_BYTES,
    BLOCK_WITH_BIAS_BYTES,
    channel_blocks,
    pack_bias,
    pack_planes,
)
from tpuc_cv18.kernels.product import ConvKernel, convolution_refusal, padding_value
from tpuc_cv18.operands import dtype_of, operand


class DepthwiseConvKernel(LaneKernel[Any], PerChannelKernel[Cv18Assembler]):
    """One filter per channel; sums are finished as those of a full convolution."""

    def refuse(self, node: Node) -> str | None:
        return convolution_refusal(self.lanes, node)

    def space(self, node: Node) -> Space:
        product = self.product(node)
        operands: list[View | None] = [None] * len(node.operand_types)
        operands[0] = product.input
        limits = self.lanes.window_limits(product.extent, product.strides)
        axes = self.lanes.parallel_axes(product.output.shape, "cnhw", limits=limits)
        return Space(axes, tuple(operands), (product.output,))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        names = [PackedConstant("filter", ("c",))]
        if node.op.multiplier:
            names.append(PackedConstant("block", ("c",)))
        elif _has_bias(node):
            names.append(PackedConstant("bias", ("c",)))
        return names

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        taps = node.op.window().taps * (node.operand_types[0].storage.bits // 8)
        block = BLOCK_WITH_BIAS_BYTES if _has_bias(node) else BLOCK_BYTES
        size = {"filter": round_up(taps, EU_BYTES), "bias": 4, "block": block}[name]
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * size

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        c0, c1 = tile.range("c")
        channels = node.result_type.dims[1]
        if name == "filter":
            return pack_planes(self.lanes, self.filter_array(node, arrays).reshape(channels, -1)[c0:c1])
        bias = arrays[2].reshape(-1)[c0:c1] if _has_bias(node) and arrays[2] is not None else None
        if name == "bias":
            assert bias is not None
            return pack_bias(self.lanes, bias)
        return channel_blocks(self.lanes, bias, *self.product(node).requantisation((c0, c1)))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        product = self.product(node)
        x, result = placed.operand(0), placed.result
        block, bias = placed.constants.get("block"), placed.constants.get("bias")
        asm.record(
            Depthwise(
                result=operand(result),
                result_shape=result.shape,
                input=operand(x),
                input_size=(x.shape[2], x.shape[3]),
                weight=Operand(placed.constants["filter"].address, dtype_of(node.operand_types[1].storage)),
                kernel=product.kernel,
                stride=product.strides,
                pads=x.padding,
                pad_value=padding_value(node, x.padding),
                dilation=product.dilations,
                insert=product.inserts,
                block=ChannelBlock(block.address, _has_bias(node)) if block is not None else None,
                bias=bias.address if bias is not None else None,
                relu=has_relu(node),
            )
        )
        emit_limit(node, result, asm)


def _has_bias(node: Node) -> bool:
    return node.operand_types[2] is not ABSENT


class AnyConvKernel(KernelChoice[tpu.Conv2D]):
    """Full or depthwise convolution; other groups are spelled out by the lowering."""

    def __init__(self, target: Target) -> None:
        self._full, self._depthwise = ConvKernel(target), DepthwiseConvKernel(target)
        self._other = GroupedConvKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler]:
        if node.op.group == 1:
            return self._full
        channels = (node.operand_types[0].dims[1], node.result_type.dims[1])
        return self._depthwise if channels == (node.op.group, node.op.group) else self._other


class GroupedConvKernel(TileKernel[tpu.Conv2D, Cv18Assembler]):
    """Groups of several channels, which the chip does not have."""

    def refuse(self, node: Node) -> str | None:
        return "groups of several channels have no kernel; lowering writes them as one group with zeros between"
