"""Max and average pooling."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from tpuc.api import Box, Node, Phase, PlacedTile, Scratch, Space, Tile, TileKernel, View, elementwise_view
from tpuc_chip_parts.tiles import tile_shape, window_box
from tpuc_ops import tpu
from tpuc_ops.integers import is_integer
from tpuc_ops.quant.arithmetic import Rounding
from tpuc_ops.window import pair, spatial

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import DType, Operand, PoolOp, PoolOrDepthwise, Requantize, RequantizeOp, Scalar
from tpuc_bm1684x.isa.fused import one_record
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import OfChip, window_refusal, zero_point_refusal
from tpuc_bm1684x.kernels.product import padding_value
from tpuc_bm1684x.kernels.widening import Widened, widening_scratch
from tpuc_bm1684x.operands import dtype_of


class PoolKernel(OfChip, TileKernel[tpu.Pool2D, Bm1684xAssembler]):
    """Max pooling; average pooling as the sum times a multiplier (int8, shifted half up) or 1 / window size (float).

    With zero points the sum is an int32, to which scale and offset are applied in f32.
    """

    def refuse(self, node: Node[tpu.Pool2D]) -> str | None:
        return (average_refusal(node) if node.op.pool_mode == "Avg" else None) or window_refusal(
            node.op.window(), pair(node.op.window().overhang(spatial(node.operand_types[0].dims, 2)))
        )

    def space(self, node: Node) -> Space:
        source = View(elementwise_view(node.operand_types[0].dims))
        result = View(elementwise_view(node.result_type.dims))
        limits = self.lanes.window_limits((node.op.kernel_shape[0], node.op.kernel_shape[1]), node.op.strides)
        return Space(self.lanes.parallel_axes(result.shape, limits=limits), (source,), (result,))

    def reads(self, node: Node[tpu.Pool2D], space: Space, tile: Tile) -> Sequence[Box | None]:
        op = node.op
        (view,) = space.operands
        assert view is not None
        return [window_box(tile, view, tile.range("c"), (op.kernel_shape[0], op.kernel_shape[1]), op.strides, op.pads)]

    def tiling_key(self, node: Node) -> Hashable:
        return (node.op.pool_mode, node.op.window(), node.op.scale is None)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if node.op.pool_mode != "Avg":
            return ()
        if is_integer(node.result_type):
            size = self.lmem.tensor_bytes("aligned", tile_shape(tile), 4)
            return (Scratch("sum", size),) if self._requantizes(node) and not self._fuses(node) else ()
        (box,) = self.reads(node, self.space(node), tile)
        assert box is not None
        return widening_scratch(node, box.shape, tile_shape(tile), self.lmem)

    def _requantizes(self, node: Node[tpu.Pool2D]) -> bool:
        """True when a command of its own scales the sums of integers."""
        return node.op.scale is not None or not self.target.shifts_pools

    def _fuses(self, node: Node[tpu.Pool2D]) -> bool:
        """True when the command that adds also requantizes the sums of integers."""
        return node.op.pool_mode == "Avg" and node.op.scale is None and self.target.has_registers

    def emit(self, node: Node[tpu.Pool2D], placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        op = node.op
        x, result = placed.operand(0), placed.result
        dtype = dtype_of(x.element)
        average = op.pool_mode == "Avg"
        weight: Scalar | None = None
        pad_value = lowest(dtype)
        wide = Widened.of(placed, asm) if average else Widened.none(placed)
        target = Operand(placed.scratch["sum"].address, DType.INT32) if "sum" in placed.scratch else wide.result
        if average:
            taps = op.kernel_shape[0] * op.kernel_shape[1]
            factor = 1 if self._requantizes(node) else op.multiplier
            weight = Scalar.of(1.0 / taps, DType.F32) if dtype.is_float else Scalar.of(factor, DType.UINT8)
            pad_value = padding_value(node, x.padding)
        fuses = self._fuses(node) and not dtype.is_float
        if fuses:
            asm.record(one_record(op.multiplier, op.rshift, 0))
        shifts = average and target is wide.result and not dtype.is_float and not fuses
        asm.record(
            PoolOrDepthwise(
                operation=PoolOp.AVERAGE if average else PoolOp.MAX,
                result=target,
                shape=result.shape,
                input=wide.input,
                input_size=(x.shape[2], x.shape[3]),
                kernel=(op.kernel_shape[0], op.kernel_shape[1]),
                stride=(op.strides[0], op.strides[1]),
                pads=x.padding,
                weight=weight,
                pad_value=pad_value,
                shift=op.rshift if shifts else 0,
                requantizes=fuses,
            )
        )
        if target is not wide.result:
            asm.record(
                Requantize(
                    operation=RequantizeOp.REQUANTIZE,
                    shape=result.shape,
                    result=wide.result,
                    input=target,
                    multiplier=op.multiplier,
                    shift=-op.rshift,
                    rounding=Rounding.HALF_UP,
                )
                if op.scale is None
                else Requantize(
                    operation=RequantizeOp.FLOAT_REQUANTIZE,
                    shape=result.shape,
                    result=wide.result,
                    input=target,
                    scale=op.scale,
                    offset=op.offset or 0.0,
                    rounding=Rounding(op.round_mode),
                )
            )
        wide.finish(placed, asm)
        emit_relu(node, result, asm)


def average_refusal(node: Node[tpu.Pool2D]) -> str | None:
    """The refusal of averages that are not a plain sum times a constant, None if the node is supported."""
    op = node.op
    overhang = any(op.window().overhang(spatial(node.operand_types[0].dims, 2)))
    if (any(op.pads) and not op.count_include_pad) or overhang:
        return "an average that does not count padding needs windows without padding"
    if op.pad_value:
        return f"padding must be 0, this one is {op.pad_value}"
    if not is_integer(node.result_type) or op.scale is not None:
        return None
    if node.result_type.storage.is_unsigned != node.operand_types[0].storage.is_unsigned:
        source, result = node.operand_types[0].storage, node.result_type.storage
        return f"the result of an average must be signed if its operand is, these are {result} and {source}"
    if op.round_mode != "HalfUp":
        return f"the chip rounds averages HalfUp, this one asks for {op.round_mode}"
    return zero_point_refusal([*node.operand_types, node.result_type])


def lowest(dtype: DType) -> Scalar:
    """The padding value of a maximum: the lowest value of the type."""
    limits = np.finfo(np.float32).min if dtype.is_float else np.iinfo(dtype.numpy).min
    return Scalar.of(float(limits), dtype)
