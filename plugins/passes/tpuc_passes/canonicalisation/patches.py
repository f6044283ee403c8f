"""Convolutions over separate patches, as at the start of vision transformers, are products of rearranged images."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tpuc.api import Operation, Pattern, Rewriter, Value
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.reshape import Reshape

from tpuc_passes.canonicalisation.common import Names, constant_array, new_weight

_FAR = 15  # strides up to here fit the 4-bit fields that convolution engines have


@dataclass(frozen=True)
class PatchesIntoChannels(Pattern):
    """Windows that neither overlap nor leave gaps, further apart than chips step, become channels of one place each."""

    names: Names
    matches = (Conv,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        filters = constant_array(operation.operands[1], rewriter.module)
        if filters is None or filters.ndim != 4 or op.group != 1 or op.inserts or any(op.pads) or max(op.dilations) > 1:
            return False
        n, c, height, width = operation.operands[0].tensor.dims
        rows, columns = op.kernel_shape
        if tuple(op.strides) != (rows, columns) or max(rows, columns) <= _FAR or height % rows or width % columns:
            return False
        h, w = height // rows, width // columns
        rewriter.at(operation)
        x = self._shaped(operation.operands[0], (n, c, h, rows, w, columns), f"{operation.name}_cut", rewriter)
        moved = x.tensor.with_shape((n, c, rows, columns, h, w))
        x = rewriter.build(Permute(order=(0, 1, 3, 5, 2, 4)), [x], moved, self.names.new(f"{operation.name}_patches"))
        x = self._shaped(x, (n, c * rows * columns, h, w), f"{operation.name}_channels", rewriter)
        flat = filters.reshape(filters.shape[0], -1, 1, 1)
        rewriter.set_operand(operation, 1, new_weight(rewriter, self.names, f"{operation.name}_filter", flat))
        rewriter.set_operand(operation, 0, x)
        rewriter.change(operation, dataclasses.replace(op, kernel_shape=(1, 1), strides=(1, 1)))
        return True

    def _shaped(self, value: Value, dims: tuple[int, ...], name: str, rewriter: Rewriter) -> Value:
        return rewriter.build(Reshape(shape=dims), [value], value.tensor.with_shape(dims), self.names.new(name))
