"""Convolution and matrix product: output channels across lanes, partial sums over input channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpuc.api import (
    ABSENT,
    F32,
    Axis,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    View,
)
from tpuc_chip_parts.lanes import Lanes
from tpuc_chip_parts.tiles import Product, ProductSpace, RowsFilter, WindowKernel, tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.integers import zero_point

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import (
    Arithmetic,
    ArithmeticOp,
    ChannelBlock,
    Conv,
    DType,
    Layout,
    Operand,
    PartialSum,
)
from tpuc_cv18.isa.geometry import EU_BYTES, round_up
from tpuc_cv18.kernels.activation import emit_limit, has_relu, upper_bound
from tpuc_cv18.kernels.common import LaneKernel, element_refusal, types_refusal
from tpuc_cv18.kernels.float_sums import (
    SUM_PLANES,
    FloatSums,
    SumPlanes,
    factor_rows,
    gives_floats,
    planes_of,
    terms_of,
)
from tpuc_cv18.kernels.packing import (
    BLOCK_BYTES,
    BLOCK_WITH_BIAS_BYTES,
    channel_blocks,
    pack_bias,
    pack_filter,
    pack_planes,
)
from tpuc_cv18.operands import MAX_DMA_EXTENT, MAX_EXTENT, dtype_of, operand

PARTIAL = {
    Phase.ONLY: PartialSum.OFF,
    Phase.FIRST: PartialSum.FIRST,
    Phase.MIDDLE: PartialSum.MIDDLE,
    Phase.LAST: PartialSum.LAST,
}
"""The handling of partial sums in each phase of a reduction."""
_HALF_BYTES, _F32_BYTES = 2, 4
_SEPARATE, _SEPARATE_FLOATS = 11, 5
"""Maximum number of column groups with which rows are separate images: products take a cycle per group, for integers
half of one, while loading an element as a separate memory block takes 5.5 cycles.
"""
_DOUBLE_FROM = 3  # input channels from which two per cycle pay off; an odd number gets a channel of zero weights


class ProductKernel(LaneKernel[Any], WindowKernel[Cv18Assembler]):
    """Base of convolution and matrix product. Integers: sums including the bias are requantized per channel (QDM).
    bf16: float32 sums and bias.

    Partial sums are planes of bytes, or of 16-bit halves, in their own buffer, where the last step writes the result.
    Integer sums with float output are all partial sums, and a separate step converts them to floats.
    """

    def product(self, node: Node) -> Product:
        """The node as a convolution."""
        raise NotImplementedError

    def space(self, node: Node) -> Space:
        product = self.product(node)
        operands: list[View | None] = [None] * len(node.operand_types)
        operands[0] = product.input
        reduction = Axis("k", product.input.shape[1], reduction=True, granularity=self.lanes.count, limit=MAX_EXTENT)
        limits = self.lanes.window_limits(product.extent, product.strides)
        if node.result_type.storage == F32:
            limits = (limits[0], min(limits[1], MAX_EXTENT // _F32_BYTES))
        axes = (*self.lanes.parallel_axes(product.output.shape, "cnhw", limits=limits), reduction)
        return ProductSpace(axes, tuple(operands), (product.output,), product)

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        product = self.product(node)
        names = [PackedConstant("filter", ("c", "k"))]
        if product.multipliers:
            names.append(PackedConstant("block", ("c",)))
        elif product.has_bias:
            names.append(PackedConstant("bias", ("c",)))
        if gives_floats(node):
            names.append(PackedConstant("factors", ("c",)))
        return names

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        lanes, groups = min(channels, self.lanes.count), self.lanes.slots_of(channels)
        product = self.product(node)
        if name == "bias":
            return lanes, groups * 4
        if name == "factors":
            return lanes, groups * EU_BYTES
        if name == "block":
            return lanes, groups * (BLOCK_WITH_BIAS_BYTES if product.has_bias else BLOCK_BYTES)
        taps = product.kernel[0] * product.kernel[1]
        return lanes, groups * self.depth(node, tile.size("k")) * taps * _item(node)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        product = self.product(node)
        c0, c1 = tile.range("c")
        bias = None
        if product.has_bias:
            bias = arrays[2]
            assert bias is not None
            bias = bias.reshape(-1)[c0:c1]
        if name == "bias":
            assert bias is not None
            return pack_bias(self.lanes, bias)
        if name == "block":
            return channel_blocks(self.lanes, bias, *product.requantization((c0, c1)))
        if name == "factors":
            return pack_planes(self.lanes, factor_rows(product.factors((c0, c1)), planes_of(terms_of(product))))
        k0, k1 = tile.range("k")
        return pack_filter(self.lanes, self.filter_array(node, arrays)[c0:c1, k0:k1], self.depth(node, k1 - k0))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if gives_floats(node):
            layout = SumPlanes(tile_shape(tile), self.lanes.count)
            halves = layout.lane_bytes(planes_of(terms_of(self.product(node))), _HALF_BYTES)
            return (Scratch("sums", layout.lane_bytes(SUM_PLANES)), Scratch("halves", halves))
        if tile.size("k") == self.product(node).input.shape[1]:
            return ()
        planes = 2 if node.operand_types[0].storage.is_float else 4
        return (Scratch("sums", planes * self.planes_bytes(tile_shape(tile), _item(node))),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        product = self.product(node)
        result = placed.result
        if gives_floats(node):
            self._emit_floats(node, product, placed, phase, asm)
            return
        target = operand(result)
        if phase is not Phase.ONLY:
            kind = DType.BF16 if target.dtype.is_float else target.dtype if phase.ends else DType.INT8
            target = Operand(placed.scratch["sums"].address, kind)
        asm.record(self.command(node, product, placed, target, phase))
        if not phase.ends:
            return
        if phase is Phase.LAST:
            asm.record(Arithmetic(operation=ArithmeticOp.COPY, shape=result.shape, result=operand(result), left=target))
        emit_limit(node, result, asm)

    def _emit_floats(self, node: Node, product: Product, placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        """Accumulate integers, and convert them to floats in the last step."""
        sums, layout = placed.scratch["sums"].address, SumPlanes(placed.result.shape, self.lanes.count)
        adding = Phase.FIRST if phase is Phase.ONLY else Phase.MIDDLE if phase is Phase.LAST else phase
        asm.record(self.command(node, product, placed, Operand(sums, DType.INT8, layout.strides()), adding))
        if not phase.ends:
            return
        bias = placed.constants.get("bias")
        floats = FloatSums(
            layout,
            planes_of(terms_of(product)),
            sums,
            placed.scratch["halves"].address,
            placed.constants["factors"].address,
            bias.address if bias is not None else None,
            has_relu(node),
            upper_bound(node, node.op.relu_limit) if node.op.do_relu else None,
        )
        floats.emit(placed.result, asm)

    def command(self, node: Node, product: Product, placed: PlacedTile, target: Operand, phase: Phase) -> Conv:
        """The command of one tile."""
        x, filters = placed.operand(0), placed.constants["filter"]
        block, bias = placed.constants.get("block"), placed.constants.get("bias")
        channels = self.depth(node, x.shape[1])
        return Conv(
            result=target,
            result_shape=placed.result.shape,
            input=operand(x),
            input_shape=(channels, *x.shape[2:]),
            weight=Operand(filters.address, self.filter_type(node), Layout.COMPACT),
            kernel=product.kernel,
            stride=product.strides,
            pads=x.padding,
            pad_value=padding_value(node, x.padding),
            dilation=product.dilations,
            insert=product.inserts,
            block=ChannelBlock(block.address, product.has_bias) if block is not None and phase.ends else None,
            bias=bias.address if bias is not None and phase.ends else None,
            relu=phase.ends and has_relu(node),
            partial=PARTIAL[phase],
            double=not _is_float(node) and channels >= 4 and channels % 2 == 0,
        )

    def filter_type(self, node: Node) -> DType:
        """The element type of the filters in the command."""
        return dtype_of(node.operand_types[1].storage)

    def depth(self, node: Node, channels: int) -> int:
        """Number of input channels in the command."""
        return channels if _is_float(node) or channels < _DOUBLE_FROM else round_up(channels, 2)


def _item(node: Node) -> int:
    return node.operand_types[0].storage.bits // 8


def _is_float(node: Node) -> bool:
    return node.operand_types[0].storage.is_float


def requantize_refusal(node: Node, multipliers: Sequence[int], shifts: Sequence[int]) -> str | None:
    """The refusal of requantization parameters, None if they are supported."""
    if _is_float(node) or (gives_floats(node) and getattr(node.op, "scales", ())):
        return None
    if not multipliers:
        return "integer sums must be requantized, the chip cannot store 32 bits"
    if node.op.quant_mode != "QDM" or node.op.round_mode != "HalfAwayFromZero":
        return f"only quant_mode QDM rounded HalfAwayFromZero, this one is {node.op.quant_mode} {node.op.round_mode}"
    if not all(0 <= shift <= 31 for shift in shifts):
        return f"shifts from 0 to 31, these are {min(shifts)} to {max(shifts)}"
    return None


def _element_refusal(node: Node) -> str | None:
    """The refusal of the element types of operand and result; the matrix or filter is constant."""
    results = node.operand_types[:1] if gives_floats(node) else node.result_types
    return element_refusal(Node(node.op, node.operand_types[:1], results, node.name), points=True)


def point_refusal(node: Node) -> str | None:
    """The refusal of results with zero points, None if supported: the bias must include the zero point, and a relu
    clamps at 0.
    """
    point = zero_point(node.result_type)
    if not point or _is_float(node):
        return None
    if not node.op.offset_in_bias:
        return f"the bias must include the zero point, which is {point}"
    return f"a relu needs zero point 0, this one is {point}" if node.op.do_relu else None


def padding_value(node: Node, padding: Sequence[int]) -> int:
    """The padding value of a window: the operand's zero point."""
    return zero_point(node.operand_types[0]) if any(padding) else 0


def convolution_refusal(lanes: Lanes, node: Node[tpu.Conv2D]) -> str | None:
    """The refusal common to all convolutions, None if the node is supported."""
    op = node.op
    if any(op.inserts or ()) or op.kernel_zp:
        return "zeros between rows and zero points of the kernel have no kernel"
    return (
        _element_refusal(node)
        or point_refusal(node)
        or requantize_refusal(node, op.multiplier, op.rshift)
        or lanes.window_refusal(op.window())
    )


def constant_matrix_refusal(node: Node[tpu.MatMul]) -> str | None:
    """The refusal common to all products with a constant matrix, None if the node is supported."""
    op = node.op
    if op.left_transpose or op.output_transpose:
        return "left_transpose and output_transpose are not supported"
    if op.input_zp or op.right_zp:
        return "input_zp and right_zp must be 0; the operand types have zero points"
    return (
        _element_refusal(node)
        or point_refusal(node)
        or requantize_refusal(node, op.multipliers, op.rshifts)
        or types_refusal([node.operand_types[1]], MAX_DMA_EXTENT // 2)
    )


class ConvKernel(ProductKernel):
    """Convolution without groups."""

    def refuse(self, node: Node) -> str | None:
        return convolution_refusal(self.lanes, node)

    def product(self, node: Node) -> Product:
        return Product.of_convolution(node)


class MatMulKernel(RowsFilter, ProductKernel):
    """Rows times a constant matrix; each row is an image, or one pixel, of a 1×1 convolution.

    Pixels of an image are computed 8 or 16 at a time, but loaded element by element. A single row becomes an image
    where transfers have start-up cycles, because an image can be resident in local memory and strided pixels cannot.
    """

    def refuse(self, node: Node[tpu.MatMul]) -> str | None:
        return constant_matrix_refusal(node)

    def product(self, node: Node[tpu.MatMul]) -> Product:
        depth, width = node.operand_types[0].dims[-1], node.result_type.dims[-1]
        rows = node.operand_types[0].size // depth
        most = _SEPARATE_FLOATS if _is_float(node) else _SEPARATE
        if self.lanes.slots_of(width) <= most or (rows == 1 and self.target.profile.counts_starts):
            left, result = View((rows, depth, 1, 1)), View((rows, width, 1, 1))
        else:
            left = View((1, depth, rows, 1), (rows * depth, 1, depth, 1))
            result = View((1, width, rows, 1), (rows * width, 1, width, 1))
        return Product(
            left,
            result,
            has_bias=node.operand_types[2] is not ABSENT,
            multipliers=node.op.multipliers,
            right_shifts=node.op.rshifts,
            scales=node.op.scales,
        )
