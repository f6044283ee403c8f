"""Pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, RoundMode, Value, Wants
from tpuc_chip_parts.lowering import InnerBuilder, pool2d, pooled_in_strips, result_with_sign, strip_count
from tpuc_ops import top, tpu
from tpuc_ops.pooling import window_counts
from tpuc_ops.quant.arithmetic import decompose_search

from tpuc_bm1684x.kernels.common import MAX_WINDOW_STEP
from tpuc_bm1684x.lowerings.common import ALL, FLOATS, INTEGERS, Array, float_weight, needs_wide
from tpuc_bm1684x.lowerings.reductions import WIDEST
from tpuc_bm1684x.lowerings.table import TABLE
from tpuc_bm1684x.lowerings.windows import (
    lowest_stored,
    padded,
    windows_apart,
)
from tpuc_bm1684x.operands import MAX_EXTENT

# The multiplier of an average is an unsigned byte, its shift cannot go left (isa notes, PorD).
_decompose = partial(decompose_search, bits=8, lowest_shift=0)
WIDEST_BYTES = 1 << 17
"""Maximum number of bytes pooled in one step: half of a lane."""


def _refuse(node: LoweringNode[top.MaxPool | top.AvgPool]) -> str | None:
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    if not node.op.keepdims:
        return "keepdims must be true"
    if _is_far(node.op) and not _is_apart(node):
        return f"a stride above {MAX_WINDOW_STEP} needs windows that do not overlap, without padding"
    return None


def _is_far(op: top.MaxPool | top.AvgPool) -> bool:
    return max(op.window().strides) > MAX_WINDOW_STEP and max(op.strides) > 1


def _is_apart(node: LoweringNode[top.MaxPool | top.AvgPool]) -> bool:
    """True when windows neither overlap nor exceed the operand."""
    window, size = node.op.window(), node.op.size(node)
    apart = all(kernel <= stride for kernel, stride in zip(window.kernel, window.strides, strict=True))
    return apart and not any(window.pads) and not any(window.overhang(size))


class PoolLowering(Lowering[Any]):
    """Base of pooling; non-overlapping windows with large strides become separate images."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [self.plane(node, build)]

    def plane(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        """Pool images with windows of any size and stride."""
        widest = WIDEST_BYTES if node.operands[0].tensor.is_quantized else WIDEST
        parts = strip_count(node, widest)
        if parts > 1:
            return pooled_in_strips(node, build, parts, self.plain, MAX_EXTENT)
        if not _is_far(node.op):
            return self.plain(node, build)
        apart = windows_apart(node, build)
        value = self.plain(apart, InnerBuilder(build, apart.name))
        dims = node.result_type.dims
        return build(tpu.Reshape(shape=dims), [value], value.tensor.with_shape(dims).at(None))

    def plain(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        """Pool with windows that fit the command fields."""
        raise NotImplementedError


@TABLE.lowers(top.MaxPool, *ALL)
class MaxPoolAny(PoolLowering):
    """Maximum of stored values; the result keeps the operand's type."""

    def plain(self, node: LoweringNode[top.MaxPool], build: LoweringBuilder) -> Value:
        result = node.operands[0].tensor.with_shape(node.result_type.dims).at(None)
        pads = node.op.pads
        if max(pads) <= MAX_WINDOW_STEP:
            return build(pool2d(node.op, "Max"), node.operands, result)
        source = node.operands[0]
        value = padded(build, source, pads, f"{node.name}_padded", lowest_stored(source.tensor))
        return build(dataclasses.replace(pool2d(node.op, "Max"), pads=(0, 0, 0, 0)), [value], result)


class AvgPoolBase(PoolLowering):
    """Base of average pooling. Windows with uncounted padding are computed in floats: the mean of the whole window
    times a map of factors.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        floats = _factors(node) is not None or strip_count(node, WIDEST_BYTES) > 1
        return (Wants.FLOAT if floats and node.mode in INTEGERS else Wants.MODE,)

    def plain(self, node: LoweringNode[top.AvgPool], build: LoweringBuilder) -> Value:
        if max(node.op.pads) > MAX_WINDOW_STEP:
            return self._padded(node, build)
        factors = _factors(node)
        if factors is None:
            return self.full(node, build)
        op = node.op
        upper, left, bottom, right = op.pads
        down, across = op.window().overhang(op.size(node))
        reaching = dataclasses.replace(
            pool2d(op, "Avg"),
            pads=(upper, left, bottom + down, right + across),
            ceil_mode=None,
            count_include_pad=True,
            do_relu=False,
        )
        result = node.float_result_type()
        value = build(reaching, node.operands, result, f"{node.name}_counted")
        operands = [value, float_weight(build, "factors", factors, result.storage.name)]
        return build(tpu.Mul(do_relu=op.do_relu, relu_limit=op.relu_limit), operands, result)

    def _padded(self, node: LoweringNode[top.AvgPool], build: LoweringBuilder) -> Value:
        """Pad by a separate op; a map of factors corrects for uncounted padding."""
        op = node.op
        factors = _factors(node)
        source = padded(build, node.operands[0], op.pads, f"{node.name}_padded")
        last = factors is None
        inner = dataclasses.replace(
            node,
            op=dataclasses.replace(op, pads=(0, 0, 0, 0), do_relu=op.do_relu and last),
            operand_types=(node.operand_types[0].with_shape(source.tensor.dims),),
            operands=(source,),
            name=node.name if last else f"{node.name}_counted",
        )
        value = self.full(inner, build if last else InnerBuilder(build, inner.name))
        if factors is None:
            return value
        operands = [value, float_weight(build, "factors", factors, value.tensor.storage.name)]
        return build(tpu.Mul(do_relu=op.do_relu, relu_limit=op.relu_limit), operands, value.tensor.at(None))

    def full(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        """Average with all elements of each window counted."""
        raise NotImplementedError


def _factors(node: LoweringNode[top.AvgPool]) -> Array | None:
    """Window size divided by the number of counted elements, for each output position; None where all are counted."""
    op = node.op
    counts = window_counts(op.size(node), op.window(), op.count_include_pad)
    taps = op.window().taps
    return None if (counts == taps).all() else (taps / counts).astype(np.float32)


@TABLE.lowers(top.AvgPool, *FLOATS)
class AvgPoolFloat(AvgPoolBase):
    """Sum times 1 / window size."""

    def full(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        return build(pool2d(node.op, "Avg"), node.operands, node.float_result_type())


def _rounding(node: LoweringNode) -> RoundMode:
    """Half to even if the op states it; else half away from zero, as prequantized averages of one scale are rounded."""
    return "HalfToEven" if node.op.round_mode == "HalfToEven" else "HalfAwayFromZero"


@TABLE.lowers(top.AvgPool, *INTEGERS)
class AvgPoolInt8(AvgPoolBase):
    """sum * multiplier >> shift, with Sx / (Sy * window size) as an 8-bit multiplier. With zero points, an f32 scale
    and an offset are used instead.
    """

    def full(self, node: LoweringNode[top.AvgPool], build: LoweringBuilder) -> Value:
        op = node.op
        if not node.operands[0].tensor.is_quantized:
            return build(pool2d(op, "Avg"), node.operands, node.float_result_type())
        # Averages on the chip have the signedness of their operand.
        result = result_with_sign(node, unsigned=node.operands[0].tensor.storage.is_unsigned)
        source = node.operands[0].tensor.uniform
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        scale = source.scale / (result.uniform.scale * taps)
        if needs_wide(node, node.operands[0].tensor, result):
            offset = result.uniform.zero_point - scale * taps * source.zero_point
            pool = dataclasses.replace(pool2d(op, "Avg"), scale=scale, offset=offset, round_mode=_rounding(node))
            return build(pool, node.operands, result)
        multiplier, shift = _decompose(scale)
        return build(pool2d(op, "Avg", multiplier, shift), node.operands, result)
