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
from tpuc_ops.window import pair

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import DType, Layout, Operand, PoolOp, PoolOrDepthwise, Requantise, RequantiseOp, Scalar
from tpuc_bm1684x.isa.geometry import LANES
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import parallel_axes, window_limits
from tpuc_bm1684x.kernels.grouped import GroupedConvKernel
from tpuc_bm1684x.kernels.packed_rows import PackedRowsKernel
from tpuc_bm1684x.kernels.packing import (
    COMPACT_BYTES,
    RECORD_ALIGNMENT,
    by_lane,
    record_scratch,
    requantise_records,
    slots_of,
    spread_records,
)
from tpuc_bm1684x.kernels.product import ConvKernel, convolution_refusal
from tpuc_bm1684x.kernels.widening import Widened, widening_scratch
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import dtype_of, operand


class DepthwiseConvKernel(PerChannelKernel[Bm1684xAssembler]):
    """One filter per channel. Integers: sums and bias in int32, then requantised by the per-channel table.

    Floats: in f32, with f32 filters.
    """

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].storage.name in ("f16", "bf16"):
            return f"a depthwise filter of floats must be f32, this one is {node.operand_types[1].storage.name}"
        return convolution_refusal(node)

    def space(self, node: Node) -> Space:
        operands: list[View | None] = [None] * len(node.operand_types)
        operands[0] = View(elementwise_view(node.operand_types[0].dims))
        result = View(elementwise_view(node.result_type.dims))
        limits = window_limits(pair(node.op.window().extents), node.op.window().strides)
        return Space(parallel_axes(result.shape, "cnhw", limits=limits), tuple(operands), (result,))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        names = [PackedConstant("filter", ("c",))]
        if node.operand_types[2] is not ABSENT:
            names.append(PackedConstant("bias", ("c",), alignment=4))
        if node.op.multiplier:
            names.append(PackedConstant("requantise", ("c",), alignment=RECORD_ALIGNMENT))
        return names

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        taps = node.op.window().taps * (node.operand_types[1].storage.bits // 8)
        size = {"filter": taps, "bias": 4, "requantise": COMPACT_BYTES}[name]
        return min(channels, LANES), slots_of(channels) * size

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        c0, c1 = tile.range("c")
        channels = node.result_type.dims[1]
        if name == "requantise":
            return requantise_records(*self.product(node).requantisation((c0, c1)), zero_point(node.result_type))
        array = arrays[1 if name == "filter" else 2]
        assert array is not None
        if name == "bias":
            array = array.astype(_bias_dtype(node).numpy)
        return by_lane(array.reshape(channels, -1)[c0:c1])

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not node.op.multiplier:
            (box, *_) = self.reads(node, self.space(node), tile)
            assert box is not None
            return widening_scratch(node, box.shape, tile_shape(tile))
        size = Bm1684xLmem().tensor_bytes("aligned", tile_shape(tile), 4)
        return (Scratch("sum", size), record_scratch(tile.size("c")))

    def emit(self, node: Node[tpu.Conv2D], placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        op = node.op
        x, result = placed.operand(0), placed.result
        wide = Widened.of(placed, asm)
        target = Operand(placed.scratch["sum"].address, DType.INT32) if op.multiplier else wide.result
        bias = placed.constants.get("bias")
        asm.record(
            PoolOrDepthwise(
                operation=PoolOp.DEPTHWISE,
                result=target,
                shape=result.shape,
                input=wide.input,
                input_size=(x.shape[2], x.shape[3]),
                kernel=pair(op.window().kernel),
                stride=pair(op.window().strides),
                pads=x.padding,
                dilation=pair(op.window().dilations),
                weight=Operand(
                    placed.constants["filter"].address, dtype_of(node.operand_types[1].storage), Layout.COMPACT
                ),
                bias=Operand(bias.address, _bias_dtype(node), Layout.COMPACT) if bias else None,
                pad_value=Scalar.of(zero_point(node.operand_types[0]), wide.input.dtype) if any(op.pads) else None,
            )
        )
        if op.multiplier:
            asm.record(
                Requantise(
                    operation=RequantiseOp.REQUANTISE,
                    shape=result.shape,
                    result=operand(result),
                    input=target,
                    table=spread_records(placed, asm),
                    rounding=Rounding(op.round_mode),
                )
            )
        wide.finish(placed, asm)
        emit_relu(node, result, asm)


def _bias_dtype(node: Node) -> DType:
    """Biases have the type of the sums."""
    return DType.F32 if node.operand_types[0].storage.is_float else DType.INT32


class AnyConvKernel(KernelChoice[tpu.Conv2D]):
    """Full, depthwise or grouped convolution, each by its own kernel."""

    def __init__(self) -> None:
        self._full, self._depthwise, self._grouped = ConvKernel(), DepthwiseConvKernel(), GroupedConvKernel()
        self._packed = PackedRowsKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        if node.op.group == 1:
            return self._packed if self._packed.pays(node) else self._full
        channels = (node.operand_types[0].dims[1], node.result_type.dims[1])
        return self._depthwise if channels == (node.op.group, node.op.group) else self._grouped
