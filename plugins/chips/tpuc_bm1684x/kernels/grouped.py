"""Grouped convolution, as one convolution per group, or per several narrow ones, into a common tile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from tpuc.api import LocalTensor, Node, Phase, PlacedTile, Space, Tile
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Conv, Layout, Operand
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.kernels.packing import pack_filter, record_bytes
from tpuc_bm1684x.kernels.product import ConvKernel, Product, kernel_point, padding_value
from tpuc_bm1684x.operands import dtype_of, operand

Strides: TypeAlias = tuple[int, int, int, int]


class GroupedConvKernel(ConvKernel):
    """Channels keep their lanes: the convolution of a group starts at the lane of its first output channel.

    A group's input may start at any lane, because a convolution reads inputs across lanes. All input channels of a
    group are in the tile, so there are no partial sums.

    The array multiplies as many input channels at once as filters are packed to. Narrow groups of integers share that:
    their filters are zero for each other's channels. Groups of floats stay apart, since zero times infinity is not 0.
    """

    def space(self, node: Node) -> Space:
        space = super().space(node)
        axes = tuple(axis for axis in space.axes if not axis.reduction)
        return Space(axes, space.operands, space.results)

    def input_channels(self, node: Node, tile: Tile) -> tuple[int, int]:
        """First and end input channel of all groups with an output channel in the tile."""
        inputs, outputs = self._widths(node)
        start, stop = tile.range("c")
        return start // outputs * inputs, -(-stop // outputs) * inputs

    def _widths(self, node: Node) -> tuple[int, int]:
        """Input and output channels of the groups that one convolution computes."""
        group = node.op.group // self._joined(node)
        return node.operand_types[0].dims[1] // group, node.result_type.dims[1] // group

    def _joined(self, node: Node) -> int:
        """How many neighboring groups one convolution computes."""
        group = node.op.group
        if node.operand_types[0].storage.is_float or kernel_point(node) is not None:
            return 1
        inputs, outputs = node.operand_types[0].dims[1] // group, node.result_type.dims[1] // group
        most = min(self._packing(node) // inputs, self.lanes.count // outputs)
        return next((count for count in range(most, 1, -1) if group % count == 0), 1)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name != "filter":
            return super().pack(node, name, tile, arrays)
        c0, c1 = tile.range("c")
        filters, joined = self.filter_array(node, arrays), self._joined(node)
        channels, inputs = filters.shape[:2]
        apart = np.zeros((channels, joined, *filters.shape[1:]), filters.dtype)
        every = np.arange(channels, dtype=np.int64)
        apart[every, every * node.op.group // channels % joined] = filters
        apart = apart.reshape(channels, joined * inputs, *filters.shape[2:])
        return pack_filter(apart[c0:c1], self._packing(node), self.target)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if name != "filter":
            return super().constant_shape(node, name, tile)
        channels = tile.size("c")
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * self._filter_items(node) * self._item(
            node
        )

    def _filter_items(self, node: Node) -> int:
        """Elements of one output channel's packed filter."""
        taps = node.op.kernel_shape[0] * node.op.kernel_shape[1]
        return round_up(self._widths(node)[0], self._packing(node)) * taps

    def _item(self, node: Node) -> int:
        return node.operand_types[0].storage.bits // 8

    def _is_part(self, node: Node, tile: Tile) -> bool:
        return False

    def emit_sum(
        self, node: Node, product: Product, placed: PlacedTile, target: Operand, phase: Phase, asm: Bm1684xAssembler
    ) -> None:
        inputs, outputs = self._widths(node)
        x, result = placed.operand(0), placed.result
        first_input, _ = self.input_channels(node, placed.tile)
        start, _ = placed.tile.range("c")
        chip, lanes = self.target, self.target.lanes
        target_strides = target.strides(result.shape, chip)
        source_strides = operand(x).strides(x.shape, chip)
        dtype = dtype_of(node.operand_types[1].storage)
        bias = placed.constants.get("bias")
        for group, low, high in _groups(placed.tile.range("c"), outputs):
            channel = group * inputs - first_input
            lane, slot = (low - start) % lanes, (low - start) // lanes
            filters = placed.constants["filter"].address + slot * self._filter_items(node) * self._item(node)
            for batch in range(result.shape[0]):
                asm.record(
                    Conv(
                        result=_at(chip, target, target_strides, batch, lane, slot),
                        result_shape=(1, high - low, result.shape[2], result.shape[3]),
                        input=_input(chip, x, source_strides, batch, channel),
                        input_shape=(inputs, x.shape[2], x.shape[3]),
                        weight=Operand(lane * chip.lane_bytes + filters, dtype, Layout.COMPACT),
                        kernel=product.kernel,
                        stride=product.strides,
                        pads=x.padding,
                        dilation=product.dilations,
                        insert=product.inserts,
                        bias=Operand(
                            lane * chip.lane_bytes + bias.address + 4 * slot, self._bias_type(node), Layout.COMPACT
                        )
                        if bias and not self._adds_bias(node)
                        else None,
                        pad_value=padding_value(node, x.padding),
                        kernel_zero_point=kernel_point(node),
                        **product.fusion(placed, lane * chip.lane_bytes + record_bytes(chip) * slot),
                    )
                )


def _groups(channels: tuple[int, int], width: int) -> Iterator[tuple[int, int, int]]:
    """For a range of output channels: each group with the first and end of its channels in the range."""
    start, stop = channels
    for group in range(start // width, -(-stop // width)):
        yield group, max(start, group * width), min(stop, (group + 1) * width)


def _at(chip: Target, target: Operand, strides: Strides, batch: int, lane: int, slot: int) -> Operand:
    offset = (batch * strides[0] + slot * strides[1]) * target.dtype.bytes
    return Operand(lane * chip.lane_bytes + target.address + offset, target.dtype, target.layout)


def _input(chip: Target, local: LocalTensor, strides: Strides, batch: int, channel: int) -> Operand:
    source = operand(local)
    return _at(chip, source, strides, batch, channel % chip.lanes, channel // chip.lanes)
