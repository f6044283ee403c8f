"""Pools with one window have no stride to speak of."""

from __future__ import annotations

import dataclasses
from typing import Any

from tpuc.api import Operation, Pattern, Rewriter
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool


class SingleWindowStride(Pattern):
    """Where only one window fits, the stride becomes the smallest with which that stays so: chips limit strides."""

    matches = (AvgPool, MaxPool)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        dims, result = operation.operands[0].tensor.dims, operation.results[0].tensor.dims
        if len(op.kernel_shape) != 2 or len(dims) != 4 or len(op.strides) != 2:
            return False
        top, left, bottom, right = op.pads
        sizes = (dims[2] + top + bottom, dims[3] + left + right)
        strides = tuple(
            min(stride, max(size - kernel + 1, 1)) if extent == 1 else stride
            for stride, size, kernel, extent in zip(op.strides, sizes, op.kernel_shape, result[2:], strict=True)
        )
        if strides == tuple(op.strides):
            return False
        rewriter.change(operation, dataclasses.replace(op, strides=strides))
        return True
