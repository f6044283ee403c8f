"""Rewrite convolutions with large strides, as in vision transformers and spectrograms, as stride-1 convolutions over
images whose patches are channels.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Operation, Pattern, Rewriter, Value
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names, new_weight

_FAR = 15  # strides up to here fit the 4-bit fields that convolution engines have


@dataclass(frozen=True)
class PatchesIntoChannels(Pattern):
    """For strides beyond the chips' limits: patches of one stride become channels of a single place, windows cover as
    many patches as they touch, and filters are zero where a window ends within a patch.
    """

    names: Names
    matches = (top.Conv,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        if max(op.strides) <= _FAR:
            return False
        rank = len(op.strides)
        images, ends = operation.operands[0].tensor.dims[2:], zip(op.pads[:rank], op.pads[rank:], strict=True)
        reach = [extent + sum(pair) for extent, pair in zip(images, ends, strict=True)]
        # A stride beyond the padded image gives one place, as one of its size does, but would take terabytes of zeros.
        strides = tuple(map(min, op.strides, reach))
        if strides != op.strides:
            rewriter.change(operation, dataclasses.replace(op, strides=strides))
            return True
        filters = rewriter.module.constant(operation.operands[1])
        if filters is None or filters.ndim != 4 or op.group != 1 or op.inserts or max(op.dilations) > 1:
            return False
        n, c, height, width = operation.operands[0].tensor.dims
        rows, columns = op.strides
        upper, left = op.pads[:2]
        touched = tuple(-(-extent // step) for extent, step in zip(op.kernel_shape, op.strides, strict=True))
        h, w = (count + more - 1 for count, more in zip(operation.result.tensor.dims[2:], touched, strict=True))
        rewriter.at(operation)
        x, paddings = (
            operation.operands[0],
            (0, 0, upper, left, 0, 0, h * rows - height - upper, w * columns - width - left),
        )
        if any(paddings):
            padded = x.tensor.with_shape((n, c, h * rows, w * columns))
            x = rewriter.build(top.Pad(paddings=paddings), [x], padded, self.names.new(f"{operation.name}_padded"))
        x = self._shaped(x, (n, c, h, rows, w, columns), f"{operation.name}_cut", rewriter)
        moved = x.tensor.with_shape((n, c, rows, columns, h, w))
        x = rewriter.build(
            top.Permute(order=(0, 1, 3, 5, 2, 4)), [x], moved, self.names.new(f"{operation.name}_patches")
        )
        x = self._shaped(x, (n, c * rows * columns, h, w), f"{operation.name}_channels", rewriter)
        whole = [
            count * step - extent for count, step, extent in zip(touched, op.strides, op.kernel_shape, strict=True)
        ]
        filters = np.pad(filters, [(0, 0), (0, 0), *((0, more) for more in whole)])
        parts = filters.reshape(len(filters), c, touched[0], rows, touched[1], columns).transpose(0, 1, 3, 5, 2, 4)
        flat = parts.reshape(len(filters), c * rows * columns, *touched)
        rewriter.set_operand(operation, 1, new_weight(rewriter, self.names, f"{operation.name}_filter", flat))
        rewriter.set_operand(operation, 0, x)
        changed = dataclasses.replace(op, kernel_shape=touched, strides=(1, 1), pads=(0, 0, 0, 0))
        rewriter.change(operation, changed)
        return True

    def _shaped(self, value: Value, dims: tuple[int, ...], name: str, rewriter: Rewriter) -> Value:
        return rewriter.build(top.Reshape(shape=dims), [value], value.tensor.with_shape(dims), self.names.new(name))
