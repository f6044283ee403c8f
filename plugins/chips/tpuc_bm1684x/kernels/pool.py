"""Pooling over windows of every channel."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from tpuc.api import Box, Layouts, Node, Phase, PlacedTile, Space, Tile, TileKernel, View, elementwise_view
from tpuc_ops.integers import is_integer
from tpuc_ops.tpu.pool2d import Pool2D
from tpuc_ops.window import spatial

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import DType, PoolOp, PoolOrDepthwise, Scalar
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import parallel_axes, too_large, window_box, window_refusal, zero_point_refusal
from tpuc_bm1684x.operands import dtype_of, operand


class PoolKernel(TileKernel[Pool2D]):
    """Maximum; average as the sum times a multiplier (int8, shifted half up) or 1 / window (float)."""

    def refuse(self, node: Node) -> str | None:
        op: Pool2D = node.op
        return (
            (average_refusal(node) if op.pool_mode == "Avg" else None)
            or window_refusal(op.window(), op.window().overhang(spatial(node.operand_types[0].dims, 2)))
            or too_large([*node.operand_types, node.result_type])
        )

    def space(self, node: Node) -> Space:
        source = View(elementwise_view(node.operand_types[0].dims))
        result = View(elementwise_view(node.result_type.dims))
        return Space(parallel_axes(result.shape), (source,), (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        op: Pool2D = node.op
        (view,) = space.operands
        assert view is not None
        return [window_box(tile, view, tile.range("c"), (op.kernel_shape[0], op.kernel_shape[1]), op.strides, op.pads)]

    def tiling_key(self, node: Node) -> Hashable:
        return (node.op.pool_mode, node.op.window())

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        op: Pool2D = node.op
        x, result = placed.operand(0), placed.result
        dtype = dtype_of(x.element)
        average = op.pool_mode == "Avg"
        weight: Scalar | None = None
        if average:
            taps = op.kernel_shape[0] * op.kernel_shape[1]
            weight = Scalar.of(1.0 / taps, dtype) if dtype.is_float else Scalar.of(op.multiplier, DType.UINT8)
        asm.record(
            PoolOrDepthwise(
                operation=PoolOp.AVERAGE if average else PoolOp.MAX,
                result=operand(result),
                shape=result.shape,
                input=operand(x),
                input_size=(x.shape[2], x.shape[3]),
                kernel=(op.kernel_shape[0], op.kernel_shape[1]),
                stride=(op.strides[0], op.strides[1]),
                pads=x.padding,
                weight=weight,
                pad_value=None if average else lowest(dtype),
                shift=op.rshift if average and not dtype.is_float else 0,
            )
        )
        emit_relu(node, result, asm)


def average_refusal(node: Node) -> str | None:
    """The refusal for averages that are no plain sum times a number."""
    op: Pool2D = node.op
    overhang = any(op.window().overhang(spatial(node.operand_types[0].dims, 2)))
    if (any(op.pads) and not op.count_include_pad) or overhang:
        return "an average that does not count padding needs windows without padding"
    if op.pad_value:
        return f"padding must be 0, this one is {op.pad_value}"
    if is_integer(node.result_type) and op.scale is not None:
        return "an average with a float scale has no kernel"
    if is_integer(node.result_type) and op.round_mode != "HalfUp":
        return f"the chip rounds averages HalfUp, this one asks for {op.round_mode}"
    return zero_point_refusal([*node.operand_types, node.result_type])


def lowest(dtype: DType) -> Scalar:
    """The padding of a maximum: the smallest value of the type."""
    limits = np.finfo(np.float32).min if dtype.is_float else np.iinfo(dtype.numpy).min
    return Scalar.of(float(limits), dtype)
