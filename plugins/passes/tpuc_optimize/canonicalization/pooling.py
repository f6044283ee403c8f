"""Normalize the stride of pools with a single window, and choose maxima before functions that fall and rise."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tpuc.api import Operation, Pattern, Rewriter, Value
from tpuc_ops import top
from tpuc_ops.traits import FallsThenRises

from tpuc_optimize.canonicalization.common import Names, behind_moves


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


@dataclass(frozen=True)
class MaximumBeforeFunction(Pattern):
    """The maximum over whole images of a function that falls and then rises, such as GELU, is the function's larger
    result of two: for the smallest element, and for the largest. The function is then computed on few elements.
    """

    names: Names
    matches = (top.MaxPool, top.Reduce)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        axes, (function, moves) = _whole_axes(operation), behind_moves(operation)
        if not axes or function is None or not isinstance(function.op, FallsThenRises):
            return False
        name, type, value = operation.name, operation.result.type, function.operands[0]
        for move in reversed(moves):
            value = rewriter.build(move.op, [value], move.result.type, self.names.new(f"{move.name}_before"))
        keeps, results = operation.result.tensor.rank == value.tensor.rank, list[Value]()
        for mode, end in (("ReduceMax", "largest"), ("ReduceMin", "smallest")):
            reduce = top.Reduce(axes=axes, mode=mode, keepdims=keeps)
            found = rewriter.build(reduce, [value], type, self.names.new(f"{name}_{end}"))
            results.append(rewriter.build(function.op, [found], type, self.names.new(f"{name}_of_{end}")))
        rewriter.replace(operation, rewriter.build(top.Max(), results, type, name))
        return True


def _whole_axes(operation: Operation) -> tuple[int, ...]:
    """The axes along which an op takes the maximum of everything; nothing for other ops."""
    op: Any = operation.op
    if isinstance(op, top.Reduce):
        return tuple(op.axes) if op.mode == "ReduceMax" else ()
    dims = operation.operands[0].tensor.dims
    if tuple(op.kernel_shape) != tuple(dims[2:]) or any(op.pads) or op.do_relu or operation.result.tensor.rank < 3:
        return ()
    return tuple(axis for axis in range(2, len(dims)) if dims[axis] > 1)
