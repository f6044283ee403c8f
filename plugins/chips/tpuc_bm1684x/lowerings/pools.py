"""Pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.tpu.pool2d import Pool2D

from tpuc_bm1684x.lowerings.common import ALL, FLOATS, INTEGERS, has_zero_points
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


@TABLE.lowers(AvgPool, *FLOATS)
class AvgPoolFloat(Lowering[AvgPool]):
    """Sum times 1 / window."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(_pool2d(node.op, "Avg"), node.operands, node.float_result_type())]


@TABLE.lowers(AvgPool, *INTEGERS)
class AvgPoolInt8(Lowering[AvgPool]):
    """sum * multiplier >> shift with Sx / (Sy * window) as an 8-bit multiplier; with zero points the same ratio as an
    f32 scale, and an offset (SPEC 3.2, T14).
    """

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: AvgPool = node.op
        result = node.quantised_result_type()
        source = node.operands[0].tensor.uniform
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        scale = source.scale / (result.uniform.scale * taps)
        if has_zero_points(node.operands[0].tensor, result):
            offset = result.uniform.zero_point - scale * taps * source.zero_point
            plain = _pool2d(op, "Avg")
            pool = dataclasses.replace(plain, scale=scale, offset=offset, round_mode="HalfAwayFromZero")
            return [build(pool, node.operands, result)]
        multiplier, shift = _decompose(scale)
        return [build(_pool2d(op, "Avg", multiplier, shift), node.operands, result)]
