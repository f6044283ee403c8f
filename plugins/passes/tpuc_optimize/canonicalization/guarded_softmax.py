"""Softmaxes guarded against fully masked rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tpuc.api import Module, Operation, Pattern, Rewriter, Value
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names

HIDDEN_ROW = -(2.0**99)
"""Scores below this are all masked: chips without infinities store -inf as their lowest number, or as -2 ** 100."""


@dataclass(frozen=True)
class GuardedSoftmax(Pattern):
    """``Where(IsNaN(softmax(s)), 0, softmax(s))``, as PyTorch writes attention with masks of -inf, tests the scores
    instead.

    A row of -inf alone gives NaN, but equal shares on chips whose lowest number stands for -inf.
    """

    names: Names
    matches = (top.Where,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        shares = _checked_for_nan(operation.operands[0])
        softmax = None if shares is None else shares.defining
        if softmax is None or not isinstance(softmax.op, top.Softmax):
            return False
        scores = softmax.operands[0]
        largest = top.Reduce(axes=(softmax.op.axis % scores.tensor.rank,), mode="ReduceMax", keepdims=True)
        is_hidden = top.CompareConst(mode="Less", const_val=HIDDEN_ROW)
        value = scores
        for op, word in ((largest, "largest"), (is_hidden, "hidden")):
            (type_,) = op.infer((value.tensor,))
            value = rewriter.build(op, [value], type_, self.names.new(f"{operation.name}_{word}"))
        rewriter.set_operand(operation, 0, value)
        return True


class HiddenRow(Pattern):
    """``x == -inf``, as ONNX writes attention, becomes a test for scores below all numbers that are not masked."""

    matches = (top.Compare, top.CompareConst)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        if op.mode != "Equal":
            return False
        position = 0 if isinstance(op, top.CompareConst) else _beside_minus_infinity(operation, rewriter.module)
        number = op.const_val if isinstance(op, top.CompareConst) else -math.inf
        if position is None or number != -math.inf:
            return False
        value, wanted = operation.operands[position], operation.result.tensor
        if value.tensor.dims != wanted.dims:
            return False
        is_hidden = top.CompareConst(mode="Less", const_val=HIDDEN_ROW)
        rewriter.replace(operation, rewriter.build(is_hidden, [value], wanted, operation.name))
        return True


def _beside_minus_infinity(operation: Operation, module: Module) -> int | None:
    """The position of the operand that is compared with a constant of -inf alone."""
    arrays = [module.constant(value) for value in operation.operands[:2]]
    hidden = [array is not None and array.dtype.kind == "f" and bool((array == -math.inf).all()) for array in arrays]
    return {(False, True): 0, (True, False): 1}.get((hidden[0], hidden[1]))


def _checked_for_nan(value: Value) -> Value | None:
    """The value that is compared with itself: only NaN differs from itself."""
    compare = value.defining
    if compare is None or not isinstance(compare.op, top.Compare) or compare.op.mode != "NotEqual":
        return None
    left, right = compare.operands[:2]
    return left if left is right else None
