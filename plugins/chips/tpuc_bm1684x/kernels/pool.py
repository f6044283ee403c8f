"""Max and average pooling."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np
from tpuc.api import Box, Node, Phase, PlacedTile, Scratch, Shape4, Space, Tile, TileKernel, View, elementwise_view
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
from tpuc_bm1684x.operands import dtype_of, operand
from tpuc_bm1684x.timing import cycles


class PoolKernel(OfChip, TileKernel[tpu.Pool2D, Bm1684xAssembler]):
    """Max pooling; average pooling as the sum times a multiplier (int8, shifted half up) or 1 / window size (float).

    With zero points the sum is an int32, to which scale and offset are applied in f32. Maxima, and sums of floats, are
    computed over rows first and then over columns where that takes less time.
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
        average = node.op.pool_mode == "Avg"
        if average and is_integer(node.result_type):
            size = self.lmem.tensor_bytes("aligned", tile_shape(tile), 4)
            return (Scratch("sum", size),) if self._requantizes(node) and not self._fuses(node) else ()
        (box,) = self.reads(node, self.space(node), tile)
        assert box is not None
        wide = widening_scratch(node, box.shape, tile_shape(tile), self.lmem) if average else ()
        dtype = DType.F32 if wide else dtype_of(node.operand_types[0].storage)
        whole = self._whole(node, box, tile_shape(tile), Operand(0, dtype), Operand(0, dtype))
        first, *others = self._steps(whole, 0)
        rows = [Scratch("rows", self.lmem.tensor_bytes("aligned", first.shape, dtype.bytes))] if others else []
        return (*wide, *rows)

    def _requantizes(self, node: Node[tpu.Pool2D]) -> bool:
        """True when a command of its own scales the sums of integers."""
        return node.op.scale is not None or not self.target.shifts_pools

    def _fuses(self, node: Node[tpu.Pool2D]) -> bool:
        """True when the command that adds also requantizes the sums of integers."""
        return node.op.pool_mode == "Avg" and node.op.scale is None and self.target.has_registers

    def _whole(self, node: Node, box: Box, shape: Shape4, source: Operand, result: Operand) -> PoolOrDepthwise:
        """Maxima, or sums of floats, in one command."""
        op, average = node.op, node.op.pool_mode == "Avg"
        return PoolOrDepthwise(
            operation=PoolOp.AVERAGE if average else PoolOp.MAX,
            result=result,
            shape=shape,
            input=source,
            input_size=(box.shape[2], box.shape[3]),
            kernel=(op.kernel_shape[0], op.kernel_shape[1]),
            stride=(op.strides[0], op.strides[1]),
            pads=box.padding,
            weight=Scalar.of(1.0 / (op.kernel_shape[0] * op.kernel_shape[1]), DType.F32) if average else None,
            pad_value=padding_value(node, box.padding) if average else lowest(source.dtype),
        )

    def _steps(self, whole: PoolOrDepthwise, address: int) -> Sequence[PoolOrDepthwise]:
        """The fastest commands for maxima or sums of floats; `address`: of rows that are left to be reduced."""
        if 1 in whole.kernel:
            return (whole,)
        (top, left, bottom, right), rows = whole.pads, Operand(address, whole.input.dtype)
        n, c, height, _ = whole.shape
        first = replace(
            whole,
            result=rows,
            shape=(n, c, height, whole.input_size[1]),
            kernel=(whole.kernel[0], 1),
            stride=(whole.stride[0], 1),
            pads=(top, 0, bottom, 0),
            weight=None if whole.weight is None else Scalar.of(1.0, DType.F32),
        )
        second = replace(
            whole,
            input=rows,
            input_size=first.shape[2:],
            kernel=(1, whole.kernel[1]),
            stride=(1, whole.stride[1]),
            pads=(0, left, 0, right),
        )
        split, at_once = (sum(cycles(one.on(self.target)) for one in steps) for steps in ((first, second), (whole,)))
        return (first, second) if split < at_once else (whole,)

    def emit(self, node: Node[tpu.Pool2D], placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        op = node.op
        x, result = placed.operand(0), placed.result
        dtype = dtype_of(x.element)
        wide = Widened.of(placed, asm) if op.pool_mode == "Avg" else Widened.none(placed)
        if op.pool_mode != "Avg" or dtype.is_float:
            box = Box((0, 0, 0, 0), x.shape, x.padding)
            rows = placed.scratch["rows"].address if "rows" in placed.scratch else 0
            for step in self._steps(self._whole(node, box, result.shape, wide.input, wide.result), rows):
                asm.record(step)
        else:
            self._average_integers(node, placed, asm)
        wide.finish(placed, asm)
        emit_relu(node, result, asm)

    def _average_integers(self, node: Node[tpu.Pool2D], placed: PlacedTile, asm: Bm1684xAssembler) -> None:
        op, x, result = node.op, placed.operand(0), operand(placed.result)
        target = Operand(placed.scratch["sum"].address, DType.INT32) if "sum" in placed.scratch else result
        fuses = self._fuses(node)
        if fuses:
            asm.record(one_record(op.multiplier, op.rshift, 0))
        asm.record(
            PoolOrDepthwise(
                operation=PoolOp.AVERAGE,
                result=target,
                shape=placed.result.shape,
                input=operand(x),
                input_size=(x.shape[2], x.shape[3]),
                kernel=(op.kernel_shape[0], op.kernel_shape[1]),
                stride=(op.strides[0], op.strides[1]),
                pads=x.padding,
                weight=Scalar.of(1 if self._requantizes(node) else op.multiplier, DType.UINT8),
                pad_value=padding_value(node, x.padding),
                shift=op.rshift if target is result and not fuses else 0,
                requantizes=fuses,
            )
        )
        if target is not result:
            asm.record(
                Requantize(
                    operation=RequantizeOp.REQUANTIZE,
                    shape=placed.result.shape,
                    result=result,
                    input=target,
                    multiplier=op.multiplier,
                    shift=-op.rshift,
                    rounding=Rounding.HALF_UP,
                )
                if op.scale is None
                else Requantize(
                    operation=RequantizeOp.FLOAT_REQUANTIZE,
                    shape=placed.result.shape,
                    result=result,
                    input=target,
                    scale=op.scale,
                    offset=op.offset or 0.0,
                    rounding=Rounding(op.round_mode),
                )
            )


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
