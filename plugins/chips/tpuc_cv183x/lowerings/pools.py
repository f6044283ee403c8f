"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.quant.arithmetic import decompose_shift_to_max
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.tpu.pool2d import Pool2D

from tpuc_cv183x.lowerings.common import MAX_SHIFT, result_with_sign
from tpuc_cv183x.lowerings.table import TABLE

_FACTOR_LIMIT = 255  # the multiplier of an average is an unsigned byte


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
        round_mode="HalfUp",  # what the chip does with averages
    )


@TABLE.lowers(MaxPool, "bf16", "int8")
class MaxPoolAny(Lowering[MaxPool]):
    """The maximum of stored values; the result keeps the operand's type."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        result = node.operands[0].tensor.with_shape(node.result_type.dims)
        return [build(_pool2d(node.op, "Max"), node.operands, result)]


@TABLE.lowers(AvgPool, "bf16")
class AvgPoolBf16(Lowering[AvgPool]):
    """Sum times 1 / window."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(_pool2d(node.op, "Avg"), node.operands, node.float_result_type())]


@TABLE.lowers(AvgPool, "int8")
class AvgPoolInt8(Lowering[AvgPool]):
    """sum * multiplier >> shift with Sx / (Sy * window) as an unsigned byte; the sign of the operand stays."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: AvgPool = node.op
        source = node.operands[0].tensor
        result = result_with_sign(node, unsigned=source.storage.is_unsigned)
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        factor = source.uniform.scale / (result.uniform.scale * taps)
        multiplier, shift = decompose_shift_to_max(factor, _FACTOR_LIMIT, MAX_SHIFT)
        return [build(_pool2d(op, "Avg", multiplier, shift), node.operands, result)]
