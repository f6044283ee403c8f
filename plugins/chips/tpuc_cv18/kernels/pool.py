"""Max and average pooling."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Box, Node, Phase, PlacedTile, Space, Tile, View, elementwise_view
from tpuc_chip_parts.tiles import window_box
from tpuc_ops import tpu
from tpuc_ops.integers import is_integer
from tpuc_ops.window import Window, pair, spatial

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import ArithmeticOp, AveragePool, DType, MaxPool, Scalar
from tpuc_cv18.kernels.activation import emit_bound, emit_limit
from tpuc_cv18.kernels.common import LaneKernel, element_refusal
from tpuc_cv18.operands import operand

_LOWEST = {DType.INT8: -128, DType.UINT8: 0, DType.BF16: 0xFF7F}
"""Padding of a maximum: the lowest value of the type."""
_MAX_FACTOR, _MAX_SHIFT = 255, 31


class PoolKernel(LaneKernel[tpu.Pool2D]):
    """Max pooling; average pooling as the sum times an unsigned byte, shifted half up, or times 1 / window size in
    bf16.
    """

    def refuse(self, node: Node) -> str | None:
        window: Window = node.op.window()
        overhang = pair(window.overhang(spatial(node.operand_types[0].dims, 2)))
        return (
            (_average_refusal(node) if node.op.pool_mode == "Avg" else None)
            or element_refusal(node, points=node.op.pool_mode == "Max")
            or self.lanes.window_refusal(_window(node), overhang)
        )

    def space(self, node: Node) -> Space:
        source = View(elementwise_view(node.operand_types[0].dims))
        n, c, *_ = node.result_type.dims
        height, width = node.op.window().output(spatial(node.operand_types[0].dims, 2))
        limits = self.lanes.window_limits((node.op.kernel_shape[0], node.op.kernel_shape[1]), _window(node).strides)
        result = (n, c, height, width)
        return Space(self.lanes.parallel_axes(result, limits=limits), (source,), (View(result),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        (view,) = space.operands
        assert view is not None
        window = _window(node)
        return [window_box(tile, view, tile.range("c"), pair(window.kernel), window.strides, window.pads)]

    def emit(self, node: Node[tpu.Pool2D], placed: PlacedTile, phase: Phase, asm: Cv18Assembler) -> None:
        op = node.op
        x, result = placed.operand(0), placed.result
        source, target, window = operand(x), operand(result), _window(node)
        size = (x.shape[2], x.shape[3])
        if op.pool_mode == "Max":
            asm.record(
                MaxPool(
                    result=target,
                    result_shape=result.shape,
                    input=source,
                    input_size=size,
                    kernel=pair(window.kernel),
                    stride=pair(window.strides),
                    pads=x.padding,
                    pad_value=_LOWEST[source.dtype],
                )
            )
        else:
            floats = source.dtype.is_float
            taps = window.kernel[0] * window.kernel[1]
            asm.record(
                AveragePool(
                    result=target,
                    result_shape=result.shape,
                    input=source,
                    input_size=size,
                    kernel=pair(window.kernel),
                    stride=pair(window.strides),
                    pads=x.padding,
                    factor=Scalar.of(1.0 / taps, DType.BF16).bits if floats else op.multiplier,
                    shift=0 if floats else op.rshift,
                )
            )
        if op.do_relu and target.dtype.signed:
            emit_bound(ArithmeticOp.MAX, result, result, 0.0, asm)
        emit_limit(node, result, asm)


def _window(node: Node) -> Window:
    """The op's window. In a dimension with one output the stride has no effect and may exceed its field, so it is set
    to 1.
    """
    window: Window = node.op.window()
    places = window.output(spatial(node.operand_types[0].dims, 2))
    strides = [1 if count == 1 else stride for count, stride in zip(places, window.strides, strict=True)]
    return Window.of(window.kernel, strides, window.pads, window.dilations)


def _average_refusal(node: Node[tpu.Pool2D]) -> str | None:
    op = node.op
    overhang = any(op.window().overhang(spatial(node.operand_types[0].dims, 2)))
    if (any(op.pads) and not op.count_include_pad) or overhang:
        return "an average that does not count padding needs windows without padding"
    if op.pad_value:
        return f"padding must be 0, this one is {op.pad_value}"
    if not is_integer(node.result_type):
        return None
    if op.scale is not None:
        return "an average with a float scale has no kernel"
    if op.round_mode != "HalfUp":
        return f"the chip rounds averages HalfUp, this one asks for {op.round_mode}"
    if not (0 <= op.multiplier <= _MAX_FACTOR and 0 <= op.rshift <= _MAX_SHIFT):
        return f"a factor of one byte and a shift up to {_MAX_SHIFT}, these are {op.multiplier} and {op.rshift}"
    if node.operand_types[0].storage.is_unsigned != node.result_type.storage.is_unsigned:
        return "operand and result must both be signed or both unsigned"
    return None
