"""Convolution with few input channels: packs window rows into channels to use the convolution array better.

The array multiplies 64 bytes of input channels at once, whether there are 64 channels or 3. Channel `r * c + i` of the
packed input is channel i shifted by window row r: the rows that the result rows need from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tpuc.api import Layouts, LocalTensor, Node, Phase, PlacedTile, Scratch, Shape4, Tile
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.integers import zero_point

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, Conv, LaneTransfer, Layout, Operand, Scalar, TransferOp
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.packing import pack_filter
from tpuc_bm1684x.kernels.product import ConvKernel, Product, kernel_point, padding_value
from tpuc_bm1684x.operands import dtype_of, operand


def _one_slot(tile: Tile, lanes: int) -> Tile:
    """The part of a tile that is processed at a time: for a single image, one channel per lane."""
    start, stop = tile.range("c")
    if tile.size("n") > 1 or stop - start <= lanes:
        return tile
    index = tile.names.index("c")
    return replace(tile, stops=(*tile.stops[:index], start + lanes, *tile.stops[index + 1 :]))


class PackedRowsKernel(ConvKernel):
    """Like ConvKernel, with a 1×kw window over `kh * c` channels."""

    def cycles(self, node: Node[tpu.Conv2D]) -> int | None:
        """An estimate, including the packing; None where the convolution is not faster this way."""
        images, channels, _, width = self.product(node).input.shape
        _, filters, rows, columns = self.product(node).output.shape
        kh, kw = node.op.kernel_shape[0], node.op.kernel_shape[1]
        if kh < 2 or kh * channels > self._packing(node):
            return None
        item = node.operand_types[0].storage.bits // 8
        plain = self.lanes.slots_of(filters) * -(-rows * columns // self.target.pixels[item]) * kh * kw
        plane = -(-rows * width * item // self.target.eu_bytes)
        packed = plain // kh + ((kh - 1) * (channels + 1) + 2) * plane
        return images * packed if packed < plain else None

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        lanes, size = super().constant_shape(node, name, tile)
        if name != "filter":
            return lanes, size
        kh, kw = self.product(node).kernel
        depth = round_up(kh * tile.size("k"), self._packing(node))
        return lanes, self.lanes.slots_of(tile.size("c")) * depth * kw * (node.operand_types[0].storage.bits // 8)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name != "filter":
            return super().pack(node, name, tile, arrays)
        c0, c1 = tile.range("c")
        filters = self.filter_array(node, arrays)[c0:c1]
        oc, ic, kh, kw = filters.shape
        rows = np.ascontiguousarray(filters.transpose(0, 2, 1, 3)).reshape(oc, kh * ic, 1, kw)
        return pack_filter(rows, self._packing(node), self.target)

    def layouts(self, node: Node) -> Layouts:
        """Results of a single image may be strided: they are written 64 channels at a time, after one packing."""
        layouts = super().layouts(node)
        one = self.product(node).output.shape[0] == 1
        return replace(layouts, strided_results=frozenset({0})) if one else layouts

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        product = self.product(node)
        width = self.reads(node, self.space(node), tile)[0]
        assert width is not None
        shape = (tile.size("n"), 1, tile.size("h"), width.shape[3])
        size = self.lmem.tensor_bytes("aligned", shape, node.operand_types[0].storage.bits // 8)
        assert product.input.shape[1] * product.kernel[0] <= self.lanes.count
        return (
            *super().scratch(node, _one_slot(tile, self.lanes.count)),
            Scratch("rows", size),
            Scratch("packed", size),
        )

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        self._pack_rows(node, placed, asm)
        if placed.result.shape[0] > 1:
            super().emit(node, placed, phase, asm)
            return
        for slot in range(self.lanes.slots_of(placed.result.shape[1])):
            super().emit(node, self._slot(placed, slot), phase, asm)

    def _slot(self, placed: PlacedTile, slot: int) -> PlacedTile:
        """The part of a tile with one channel per lane."""
        result = placed.result
        n, channels, h, w = result.shape
        plane = operand(result).strides(result.shape, self.target)[1]
        part = LocalTensor(
            result.address + slot * plane * (result.element.bits // 8),
            (n, min(channels - slot * self.lanes.count, self.lanes.count), h, w),
            result.layout,
            result.element,
        )
        slots = self.lanes.slots_of(channels)
        constants = {
            name: replace(block, address=block.address + slot * (block.bytes_per_lane // slots))
            for name, block in placed.constants.items()
        }
        return replace(placed, results=(part,), constants=constants)

    def _pack_rows(self, node: Node, placed: PlacedTile, asm: Bm1684xAssembler) -> None:
        product = self.product(node)
        x, result = placed.operand(0), placed.result
        n, channels, _, width = x.shape
        shape = (n, channels, result.shape[2], width)
        packed = placed.scratch["packed"].address
        self._gather_rows(node, product, x, shape, packed, 0, asm)  # the lanes of the input are those of window row 0
        for row in range(1, product.kernel[0]):
            self._gather_rows(node, product, x, shape, placed.scratch["rows"].address, row, asm)
            asm.record(
                LaneTransfer(
                    operation=TransferOp.COPY,
                    shape=shape,
                    dtype=dtype_of(x.element),
                    result=row * channels * self.target.lane_bytes + packed,
                    source=placed.scratch["rows"].address,
                )
            )

    def emit_sum(
        self, node: Node, product: Product, placed: PlacedTile, target: Operand, phase: Phase, asm: Bm1684xAssembler
    ) -> None:
        x, result = placed.operand(0), placed.result
        _, channels, _, width = x.shape
        packed = placed.scratch["packed"].address
        bias = placed.constants.get("bias")
        has_bias = bias is not None and not self._adds_bias(node)
        kind = dtype_of(node.operand_types[1].storage)
        columns = (0, x.padding[1], 0, x.padding[3])
        asm.record(
            Conv(
                result=target,
                result_shape=result.shape,
                input=Operand(packed, dtype_of(x.element)),
                input_shape=(product.kernel[0] * channels, result.shape[2], width),
                weight=Operand(placed.constants["filter"].address, kind, Layout.COMPACT),
                kernel=(1, product.kernel[1]),
                stride=(1, product.strides[1]),
                pads=columns,
                dilation=(1, product.dilations[1]),
                bias=Operand(bias.address, self._bias_type(node), Layout.COMPACT) if bias and has_bias else None,
                pad_value=padding_value(node, columns),
                kernel_zero_point=kernel_point(node),
                **product.fusion(placed),
            )
        )

    def _gather_rows(
        self, node: Node, product: Product, x: LocalTensor, shape: Shape4, address: int, row: int, asm: Bm1684xAssembler
    ) -> None:
        """Copy the input row that each result row needs from window row `row`; outside the input, the padding value."""
        kind = dtype_of(x.element)
        n, channels, rows, width = shape
        first = row * product.dilations[0] - x.padding[0]
        stride = product.strides[0]
        begin = min(max((stride - 1 - first) // stride, 0), rows)
        end = max(min((x.shape[2] - 1 - first) // stride + 1, rows), begin)
        plain = Operand(address, kind)
        if (begin, end) != (0, rows):
            fill = Scalar.of(zero_point(node.operand_types[0]), kind)
            arithmetic(asm, ArithmeticOp.COPY, shape, plain, fill)
        if begin == end:
            return
        target = plain.strides(shape, self.target)
        source = x.strides or Operand(x.address, kind).strides(x.shape, self.target)
        offset = (first + begin * stride) * width
        arithmetic(
            asm,
            ArithmeticOp.COPY,
            (n, channels, end - begin, width),
            Operand(address + begin * width * kind.bytes, kind, target),
            Operand(x.address + offset * kind.bytes, kind, (source[0], source[1], stride * width, 1)),
        )
