"""Pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops.pooling import window_counts
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.tpu.mul import Mul
from tpuc_ops.tpu.pool2d import Pool2D

from tpuc_bm1684x.lowerings.common import ALL, FLOATS, INTEGERS, Array, float_weight, has_zero_points
from tpuc_bm1684x.lowerings.table import TABLE

# The multiplier of an average is an unsigned byte, its shift cannot go left (isa notes, PorD).
_decompose = partial(decompose_search, bits=8, lowest_shift=0)


def _refuse(node: LoweringNode) -> str | None:
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    return None


def _pool2d(op: MaxPool | AvgPool, mode: str, multiplier: int = 1, rshift: int = 0) -> Pool2D:
    return Pool2D(
        pool_mode=mode,
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        ceil_mode=op.ceil_mode,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        count_include_pad=op.count_include_pad,
        multiplier=multiplier,
        rshift=rshift,
        round_mode="HalfUp",  # what the chip does with averages, whatever the command says
    )


@TABLE.lowers(MaxPool, *ALL)
class MaxPoolAny(Lowering[MaxPool]):
    """The maximum of stored values; the result keeps the operand's type."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.operands[0].tensor.with_shape(node.result_type.dims)
        return [build(_pool2d(node.op, "Max"), node.operands, result)]


class AvgPoolBase(Lowering[AvgPool]):
    """Windows that see padding that does not count are floats: the mean of the whole window, times a map of factors."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT if _factors(node) is not None and node.mode in INTEGERS else Wants.MODE,)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        factors = _factors(node)
        if factors is None:
            return [self.plain(node, build)]
        op: AvgPool = node.op
        top, left, bottom, right = op.pads
        down, across = op.window().overhang(op.size(node))
        reaching = dataclasses.replace(
            _pool2d(op, "Avg"),
            pads=(top, left, bottom + down, right + across),
            ceil_mode=None,
            count_include_pad=True,
            do_relu=False,
        )
        result = node.float_result_type()
        value = build(reaching, node.operands, result, f"{node.name}_counted")
        operands = [value, float_weight(build, "factors", factors, result.storage.name)]
        return [build(Mul(do_relu=op.do_relu, relu_limit=op.relu_limit), operands, result)]

    def plain(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        """Without such windows."""
        raise NotImplementedError


def _factors(node: LoweringNode) -> Array | None:
    """Elements of the window over those that count, for every place; None where they are the same everywhere."""
    op: AvgPool = node.op
    counts = window_counts(op.size(node), op.window(), op.count_include_pad)
    taps = op.window().taps
    return None if (counts == taps).all() else (taps / counts).astype(np.float32)


@TABLE.lowers(AvgPool, *FLOATS)
class AvgPoolFloat(AvgPoolBase):
    """Sum times 1 / window."""

    def plain(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        return build(_pool2d(node.op, "Avg"), node.operands, node.float_result_type())


@TABLE.lowers(AvgPool, *INTEGERS)
class AvgPoolInt8(AvgPoolBase):
    """sum * multiplier >> shift with Sx / (Sy * window) as an 8-bit multiplier; with zero points the same ratio as an
    f32 scale, and an offset (SPEC 3.2, T14).
    """

    def plain(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        op: AvgPool = node.op
        result = node.quantised_result_type()
        source = node.operands[0].tensor.uniform
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        scale = source.scale / (result.uniform.scale * taps)
        if has_zero_points(node.operands[0].tensor, result):
            offset = result.uniform.zero_point - scale * taps * source.zero_point
            pool = dataclasses.replace(_pool2d(op, "Avg"), scale=scale, offset=offset, round_mode="HalfAwayFromZero")
            return build(pool, node.operands, result)
        multiplier, shift = _decompose(scale)
        return build(_pool2d(op, "Avg", multiplier, shift), node.operands, result)
