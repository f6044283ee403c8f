"""Normalize the stride of pools with a single window."""

from __future__ import annotations

import dataclasses
from typing import Any

from tpuc.api import Operation, Pattern, Rewriter
from tpuc_ops import top


class SingleWindowStride(Pattern):
    """Where only one window fits, use the smallest stride with the same result: chips limit strides."""

    matches = (top.AvgPool, top.MaxPool)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        dims, result = operation.operands[0].tensor.dims, operation.results[0].tensor.dims
        if len(op.kernel_shape) != 2 or len(dims) != 4 or len(op.strides) != 2:
            return False
        upper, left, bottom, right = op.pads
        # From where a window begins behind everything: what rounding up adds must not begin before that.
        ends, behind = (dims[2] + upper, dims[3] + left), (bottom, right)
        strides = tuple(
            min(stride, _least_stride(end, end + after - kernel, bool(op.ceil_mode))) if extent == 1 else stride
            for stride, end, after, kernel, extent in zip(
                op.strides, ends, behind, op.kernel_shape, result[2:], strict=True
            )
        )
        if strides == tuple(op.strides):
            return False
        rewriter.change(operation, dataclasses.replace(op, strides=strides))
        return True


def _least_stride(end: int, room: int, ceil: bool) -> int:
    """The smallest stride that leaves one window, where `room` is the distance it could move, and `end` the last
    position where one may begin.
    """
    if ceil:
        return end if room > 0 else 1 - room
    return max(room + 1, 1)
