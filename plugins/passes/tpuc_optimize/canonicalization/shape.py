"""Merge chains of reshapes, permutations and repetitions, and remove those without effect."""

from __future__ import annotations

from typing import Any

import numpy as np
from tpuc.api import Operation, Pattern, Rewriter, TensorType
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import bypass


class MergeReshapes(Pattern):
    """Keep only the last of consecutive reshapes; remove one to the same shape."""

    matches = (top.Reshape, top.Flatten)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        value = operation.operands[0]
        dims = operation.result.tensor.dims
        if value.tensor.dims == dims:
            return bypass(operation, rewriter)
        before = value.defining
        if before is None or not isinstance(before.op, (top.Reshape, top.Flatten)):
            return False
        rewriter.set_operand(operation, 0, before.operands[0])
        rewriter.change(operation, top.Reshape(shape=dims))
        return True


class MergePermutes(Pattern):
    """Merge two permutations; moving dimensions of extent 1 is a reshape; remove an identity."""

    matches = (top.Permute,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        order: tuple[int, ...] = op.order
        value = operation.operands[0]
        if order == tuple(range(len(order))):
            return bypass(operation, rewriter)
        before = value.defining
        if before is not None and isinstance(before.op, top.Permute):
            first = before.op.order
            rewriter.set_operand(operation, 0, before.operands[0])
            rewriter.change(operation, top.Permute(order=tuple(first[index] for index in order)))
            return True
        long_axes = [index for index in order if value.tensor.dims[index] > 1]
        if long_axes == sorted(long_axes):
            rewriter.change(operation, top.Reshape(shape=operation.result.tensor.dims))
            return True
        return False


class TileBeforeBroadcast(Pattern):
    """Remove a repetition before an op that broadcasts, where another operand has the full extent."""

    matches = (top.Add, top.Sub, top.Mul, top.Div, top.Max, top.Min, top.Compare, top.Where)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        for place, value in enumerate(operation.operands):
            before = value.defining
            if before is None or not isinstance(before.op, top.Tile):
                continue
            source = before.operands[0]
            repeated = [extent for extent, count in zip(source.tensor.dims, before.op.tile, strict=True) if count > 1]
            others = [
                other.tensor.dims
                for index, other in enumerate(operation.operands)
                if index != place and isinstance(other.type, TensorType)
            ]
            if (
                set(repeated) == {1}
                and np.broadcast_shapes(source.tensor.dims, *others) == operation.result.tensor.dims
            ):
                rewriter.set_operand(operation, place, source)
                return True
        return False
