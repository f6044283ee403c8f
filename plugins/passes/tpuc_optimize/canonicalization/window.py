"""Fold pads and reductions into sliding windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import Operation, Pattern, Rewriter
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names


@dataclass(frozen=True)
class PadIntoConv(Pattern):
    """Fold zero padding into a convolution, also that of a sequence which becomes an image of one row. Others may still
    read the padded value.
    """

    names: Names
    matches = (top.Conv,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        image = operation.operands[0].defining
        op: Any = operation.op
        if image is None or len(op.kernel_shape) != 2 or op.inserts:
            return False
        is_row = _is_row(image)
        before = image.operands[0].defining if is_row else image
        if before is None or not isinstance(before.op, top.Pad):
            return False
        pad = before.op
        paddings = pad.paddings
        if pad.mode != "constant" or pad.val != 0 or len(paddings) != (6 if is_row else 8) or min(paddings) < 0:
            return False
        half = len(paddings) // 2
        if any(paddings[index] for index in (0, 1, half, half + 1)):
            return False  # images or channels are added
        if before.result.tensor.element != before.operands[0].tensor.element:
            return False  # the pad also changes a scale
        border = (0, paddings[2], 0, paddings[5]) if is_row else (*paddings[2:4], *paddings[6:8])
        pads = tuple(own + more for own, more in zip(op.pads, border, strict=True))
        if any(_surplus(op, pads)):
            return False  # what `PadBeforeConv` takes out
        value = before.operands[0]
        if is_row:
            n, c, width = value.tensor.dims
            row = (n, c, 1, width)
            name = self.names.new(f"{operation.name}_row")
            value = rewriter.build(top.Reshape(shape=row), [value], value.tensor.with_shape(row), name)
        rewriter.set_operand(operation, 0, value)
        rewriter.change(operation, dataclasses.replace(op, pads=pads))
        return True


def _is_row(operation: Operation) -> bool:
    """True if the operation makes an image of one row of a sequence."""
    if not isinstance(operation.op, top.Reshape):
        return False
    source, result = operation.operands[0].tensor.dims, operation.result.tensor.dims
    return len(source) == 3 and result == (*source[:2], 1, source[2])


def _surplus(op: top.Conv, pads: Sequence[int]) -> tuple[int, ...]:
    """The part of each pad that lies beyond the last window that still reads any input."""
    return tuple(max(pad - extent + 1, 0) for pad, extent in zip(pads, op.window().extents * 2, strict=True))


@dataclass(frozen=True)
class PadBeforeConv(Pattern):
    """Chips cannot compute windows that lie entirely in the padding; that part of the padding becomes an op of its
    own.
    """

    names: Names
    matches = (top.Conv,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        value = operation.operands[0]
        if len(op.kernel_shape) != 2 or op.inserts or not any(surplus := _surplus(op, op.pads)):
            return False
        upper, left, bottom, right = surplus
        n, c, h, w = value.tensor.dims
        padded = value.tensor.with_shape((n, c, h + upper + bottom, w + left + right))
        pad = top.Pad(paddings=(0, 0, upper, left, 0, 0, bottom, right), mode="constant", val=0.0)
        rewriter.set_operand(
            operation, 0, rewriter.build(pad, [value], padded, self.names.new(f"{operation.name}_padded"))
        )
        rest = tuple(pad - more for pad, more in zip(op.pads, surplus, strict=True))
        rewriter.change(operation, dataclasses.replace(op, pads=rest))
        return True


@dataclass(frozen=True)
class ReduceToPool(Pattern):
    """The mean or maximum of whole images becomes a pool with a single window."""

    names: Names
    matches = (top.Reduce,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        value = operation.operands[0]
        pool = {"ReduceMean": top.AvgPool, "ReduceMax": top.MaxPool}.get(op.mode)
        if pool is None or value.tensor.rank != 4 or sorted(axis % 4 for axis in op.axes) != [2, 3]:
            return False
        kernel = value.tensor.dims[2:]
        if op.keepdims:
            rewriter.change(operation, pool(kernel_shape=kernel))
            return True
        dims, element = operation.result.tensor.dims, operation.result.tensor.element
        images = value.tensor.with_shape((*dims, 1, 1)).with_element(element)
        pooled = rewriter.build(pool(kernel_shape=kernel), [value], images, self.names.new(f"{operation.name}_pool"))
        rewriter.set_operand(operation, 0, pooled)
        rewriter.change(operation, top.Reshape(shape=dims))
        return True
