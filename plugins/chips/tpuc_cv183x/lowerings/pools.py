"""Pooling."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.quant.arithmetic import decompose_shift_to_max
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.tpu.pool2d import Pool2D

from tpuc_cv183x.lowerings.common import MAX_SHIFT, result_with_sign
from tpuc_cv183x.lowerings.table import TABLE
from tpuc_cv183x.lowerings.windows import LOWEST, pad_apart

_FACTOR_LIMIT = 255  # the multiplier of an average is an unsigned byte


def _refuse(node: LoweringNode) -> str | None:
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    return None


def _refuse_average(node: LoweringNode) -> str | None:
    op: AvgPool = node.op
    if _refuse(node) is None and (any(_overhang(node)) or (any(op.pads) and not op.count_include_pad)):
        return "an average that does not count padding needs windows without padding"
    return _refuse(node)


def _overhang(node: LoweringNode) -> tuple[int, int]:
    """Rows and columns that the last windows reach beyond the padding (`ceil_mode`)."""
    return node.op.window().overhang(node.operand_types[0].dims[-2:])


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


def _padded(node: LoweringNode, build: LoweringBuilder) -> tuple[Value, AvgPool]:
    """An average's operand and op; padding beyond the fields counts as elements only where it is to count."""
    if not node.op.count_include_pad:
        return node.operands[0], node.op
    return pad_apart(node.operands[0], node.op, 0.0, node.name, build)


@TABLE.lowers(MaxPool, "bf16", "int8")
class MaxPoolAny(Lowering[MaxPool]):
    """The maximum of stored values; the result keeps the operand's type."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        type_ = node.operands[0].tensor
        (top, left, bottom, right), (below, beside) = node.op.pads, _overhang(node)
        whole = dataclasses.replace(node.op, pads=(top, left, bottom + below, right + beside), ceil_mode=None)
        value, op = pad_apart(node.operands[0], whole, LOWEST[type_.storage.name], node.name, build)
        return [build(_pool2d(op, "Max"), [value], type_.with_shape(node.result_type.dims))]


@TABLE.lowers(AvgPool, "bf16")
class AvgPoolBf16(Lowering[AvgPool]):
    """Sum times 1 / window."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse_average(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        value, op = _padded(node, build)
        return [build(_pool2d(op, "Avg"), [value], node.float_result_type())]


@TABLE.lowers(AvgPool, "int8")
class AvgPoolInt8(Lowering[AvgPool]):
    """sum * multiplier >> shift with Sx / (Sy * window) as an unsigned byte; the sign of the operand stays."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refuse_average(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: AvgPool = node.op
        source = node.operands[0].tensor
        result = result_with_sign(node, unsigned=source.storage.is_unsigned)
        taps = op.kernel_shape[0] * op.kernel_shape[1]
        factor = source.uniform.scale / (result.uniform.scale * taps)
        multiplier, shift = decompose_shift_to_max(factor, _FACTOR_LIMIT, MAX_SHIFT)
        value, op = _padded(node, build)
        return [build(_pool2d(op, "Avg", multiplier, shift), [value], result)]
