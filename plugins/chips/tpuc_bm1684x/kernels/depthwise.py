"""Depthwise convolution, and the choice of a convolution kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tpuc.api import (
    ABSENT,
    KernelChoice,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    TileKernel,
    View,
    elementwise_view,
)
from tpuc_chip_parts.tiles import PerChannelKernel, tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import (
    Arithmetic,
    ArithmeticOp,
    DType,
    Layout,
    Operand,
    PoolOp,
    PoolOrDepthwise,
    Scalar,
)
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import OfChip
from tpuc_bm1684x.kernels.folded_rows import FoldedConvKernel
from tpuc_bm1684x.kernels.grouped import GroupedConvKernel
from tpuc_bm1684x.kernels.packed_rows import PackedRowsKernel
from tpuc_bm1684x.kernels.packing import record_alignment, record_bytes
from tpuc_bm1684x.kernels.product import ConvKernel, Product, convolution_refusal
from tpuc_bm1684x.kernels.widening import Widened, widening_scratch
from tpuc_bm1684x.operands import dtype_of


class DepthwiseConvKernel(OfChip, PerChannelKernel[Bm1684xAssembler]):
    """Convolution with one filter per channel. Integers: accumulate with the bias in int32, then requantize by the
    per-channel table. Floats: compute in f32 with f32 filters.

    16-bit integer filters are split into two 8-bit parts.
    """

    def product(self, node: Node) -> Product:
        return Product.of_convolution(node, rounding=Rounding(node.op.round_mode))

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].storage.name in ("f16", "bf16"):
            return f"a depthwise filter of floats must be f32, this one is {node.operand_types[1].storage.name}"
        if node.op.kernel_zp:
            return "a depthwise filter with a zero point has no kernel"
        return convolution_refusal(node)

    def space(self, node: Node) -> Space:
        operands: list[View | None] = [None] * len(node.operand_types)
        operands[0] = View(elementwise_view(node.operand_types[0].dims))
        result = View(elementwise_view(node.result_type.dims))
        product = self.product(node)
        limits = self.lanes.window_limits(product.extent, product.strides)
        return Space(self.lanes.parallel_axes(result.shape, "cnhw", limits=limits), tuple(operands), (result,))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        names = [PackedConstant("filter", ("c",))]
        if _is_wide(node):
            names.append(PackedConstant("rest", ("c",)))
        if node.operand_types[2] is not ABSENT:
            names.append(PackedConstant("bias", ("c",), alignment=4))
        if self.product(node).requantizes:
            names.append(PackedConstant("requantize", ("c",), alignment=record_alignment(self.target)))
        return names

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        taps = node.op.window().taps * (1 if _is_wide(node) else node.operand_types[1].storage.bits // 8)
        size = {"filter": taps, "rest": taps, "bias": 4, "requantize": record_bytes(self.target)}[name]
        return min(channels, self.lanes.count), self.lanes.slots_of(channels) * size

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        c0, c1 = tile.range("c")
        channels = node.result_type.dims[1]
        if name == "requantize":
            return self.product(node).records((c0, c1), zero_point(node.result_type), self.target)
        array = arrays[2] if name == "bias" else self.filter_array(node, arrays)
        assert array is not None
        if _is_wide(node) and name != "bias":
            near = array.clip(-128, 127)
            array = (near if name == "filter" else array - near).astype(np.int8)
        if name == "bias":
            array = array.astype(_bias_dtype(node).numpy)
        return self.lanes.by_lane(array.reshape(channels, -1)[c0:c1])

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not self.product(node).requantizes:
            (box, *_) = self.reads(node, self.space(node), tile)
            assert box is not None
            return widening_scratch(node, box.shape, tile_shape(tile), self.lmem)
        if self._fuses(node):
            return ()
        size = self.lmem.tensor_bytes("aligned", tile_shape(tile), 4)
        wide = (Scratch("rest_sum", size), Scratch("whole_sum", size)) if _is_wide(node) else ()
        return (Scratch("sum", size), *wide, *self.product(node).requantize_scratch(node, tile, self.target))

    def _fuses(self, node: Node) -> bool:
        """True when the command that adds also requantizes."""
        return self.product(node).fuses(node, self.target) and not _is_wide(node)

    @staticmethod
    def _with_rest(placed: PlacedTile, sums: PoolOrDepthwise, asm: Bm1684xAssembler) -> Operand:
        """Add the sums for the part of the filters beyond 8 bits."""
        rest, whole = (Operand(placed.scratch[name].address, DType.INT32) for name in ("rest_sum", "whole_sum"))
        weight = Operand(placed.constants["rest"].address, DType.INT8, Layout.COMPACT)
        asm.record(replace(sums, result=rest, weight=weight, bias=None))
        operation = ArithmeticOp.ADD_SATURATE
        asm.record(Arithmetic(operation=operation, shape=sums.shape, result=whole, left=sums.result, right=rest))
        return whole

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        product = self.product(node)
        x, result = placed.operand(0), placed.result
        wide = Widened.of(placed, asm)
        target = wide.result
        if "sum" in placed.scratch:
            target = Operand(placed.scratch["sum"].address, DType.INT32)
        bias = placed.constants.get("bias")
        kind = DType.INT8 if _is_wide(node) else dtype_of(node.operand_types[1].storage)
        is_padded = any((*product.pads, *product.inserts))
        sums = PoolOrDepthwise(
            operation=PoolOp.DEPTHWISE,
            result=target,
            shape=result.shape,
            input=wide.input,
            input_size=(x.shape[2], x.shape[3]),
            kernel=product.kernel,
            stride=product.strides,
            pads=x.padding,
            dilation=product.dilations,
            insert=product.inserts,
            weight=Operand(placed.constants["filter"].address, kind, Layout.COMPACT),
            bias=Operand(bias.address, _bias_dtype(node), Layout.COMPACT) if bias else None,
            pad_value=Scalar.of(zero_point(node.operand_types[0]), wide.input.dtype) if is_padded else None,
            **product.fusion(placed),
        )
        asm.record(sums)
        if _is_wide(node):
            target = self._with_rest(placed, sums, asm)
        if product.requantizes and "sum" in placed.scratch:
            product.requantize(node, placed, target, asm)
        wide.finish(placed, asm)
        emit_relu(node, result, asm)


def _is_wide(node: Node) -> bool:
    """True for filters wider than 8 bits, which are split in two parts."""
    return node.operand_types[1].storage.name in ("i16", "si16")


def _bias_dtype(node: Node) -> DType:
    """The element type of the bias, which is that of the sums."""
    return DType.F32 if node.operand_types[0].storage.is_float else DType.INT32


class AnyConvKernel(KernelChoice[tpu.Conv2D]):
    """Chooses the full, packed-rows, folded-rows, depthwise or grouped kernel."""

    def __init__(self, target: Target = BM1684X) -> None:
        self._full, self._depthwise = ConvKernel(target), DepthwiseConvKernel(target)
        self._grouped, self._packed = GroupedConvKernel(target), PackedRowsKernel(target)
        self._folded, self._folded_or_packed = (FoldedConvKernel(target, one) for one in (self._full, self._packed))

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        if node.op.group == 1:
            packed, fold = self._packed.cycles(node), self._folded.fold(node)
            if fold is not None and (packed is None or fold.cycles < packed):
                return self._folded if packed is None else self._folded_or_packed
            return self._packed if packed is not None else self._full
        channels = (node.operand_types[0].dims[1], node.result_type.dims[1])
        return self._depthwise if channels == (node.op.group, node.op.group) else self._grouped
