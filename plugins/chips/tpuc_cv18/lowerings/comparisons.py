"""Comparison, selection and rounding in bf16, in every mode; booleans are 0 and 1, computed with steep slopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.top.compare import COMPARISONS, MIRRORED

from tpuc_cv18.lowerings.bf16_composer import Bf16Composer
from tpuc_cv18.lowerings.table import TABLE

_FLOATS, _INTEGERS, _BYTES = ("FLOAT", "FLOAT16", "BFLOAT16", "DOUBLE"), ("INT32", "INT64"), ("INT8", "UINT8")
_INFINITE: Any = ml_dtypes.bfloat16(np.inf)
_NO_OVERFLOW = 2.0**118
"""The difference of any bf16 number and one below this does not overflow: half a step of the largest is 2^119."""
_WHOLE_FROM = 128.0
"""From here on, bf16 holds only whole numbers; up to twice this, all of them."""


class InBf16(Lowering[Any]):
    """Base of lowerings that compute in bf16."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,) * len(node.operand_types)


def _truth(steps: Bf16Composer, value: Value) -> Value:
    """1 for every number except 0."""
    return steps.is_positive(steps.function("ABSVAL", value))


def _compared(steps: Bf16Composer, mode: str, left: Value, right: Value) -> Value:
    """1 where ``left mode right`` holds."""
    match mode:
        case "Greater":
            left = left if _is_bounded(steps) else steps.do(tpu.Max(), [left, right])  # overflow has no sign
            return steps.is_positive(steps.do(tpu.Sub(), [left, right]))
        case "Less":
            return _compared(steps, "Greater", right, left)
        case "GreaterOrEqual":
            return steps.inverted(_compared(steps, "Greater", right, left))
        case "LessOrEqual":
            return steps.inverted(_compared(steps, "Greater", left, right))
        case "NotEqual":
            return _truth(steps, steps.do(tpu.Sub(), [left, right]))
        case "Equal":
            return steps.inverted(_compared(steps, "NotEqual", left, right))
        case "And":
            return steps.do(tpu.Min(), [_truth(steps, left), _truth(steps, right)])
        case "Or":
            return steps.do(tpu.Max(), [_truth(steps, left), _truth(steps, right)])
        case _:
            return _compared(steps, "NotEqual", _truth(steps, left), _truth(steps, right))


def _is_bounded(steps: Bf16Composer) -> bool:
    """True if an operand is known to be so small that no difference overflows: a constant, or dequantized bytes."""
    node = steps.node
    if isinstance(node.op, top.CompareConst) and abs(node.op.const_val) < _NO_OVERFLOW:
        return True
    for value, constant in zip(node.operands, node.constants, strict=True):
        if constant is not None and np.abs(constant).max(initial=0.0) < _NO_OVERFLOW:
            return True
        type_ = value.tensor
        if constant is None and type_.is_quantized and 256 * type_.uniform.scale < _NO_OVERFLOW:
            return True
    return False


@TABLE.lowers(top.Compare, "bf16", "int8")
class CompareAny(InBf16):
    """Compares bf16 values: their differences keep the sign."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.EXACT if node.op.mode in COMPARISONS else Wants.AS_IS,) * len(node.operand_types)

    def refuse(self, node: LoweringNode) -> str | None:
        return _constant_refusal(node, 2)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps = Bf16Composer(node, build)
        return steps.last(_compared(steps, node.op.mode, steps.operand(0), steps.operand(1)))


@TABLE.lowers(top.CompareConst, "bf16", "int8")
class CompareConstAny(InBf16):
    """Compares with a bf16 constant: the adjacent number on the side where the comparison gives the same result for
    every bf16 operand.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.EXACT if node.op.mode in COMPARISONS else Wants.AS_IS,)

    def lower(self, node: LoweringNode[top.CompareConst], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        steps = Bf16Composer(node, build)
        value = steps.operand()
        bound = _bound(op.const_val, MIRRORED.get(op.mode, op.mode) if op.inversed else op.mode)
        number = steps.constant(np.full((1,) * len(value.tensor.dims), bound, np.float32))
        sides = (number, value) if op.inversed else (value, number)
        return steps.last(_compared(steps, op.mode, *sides))


def _bound(number: float, mode: str) -> float:
    """The bf16 number for which ``x mode number`` is unchanged for every bf16 x; for other modes the nearest."""
    exact = float(np.float32(number))
    held: Any = ml_dtypes.bfloat16(exact)
    if mode in ("GreaterOrEqual", "Less") and float(held) < exact:
        held = np.nextafter(held, _INFINITE)
    elif mode in ("Greater", "LessOrEqual") and float(held) > exact:
        held = np.nextafter(held, -_INFINITE)
    return float(held)


def _constant_refusal(node: LoweringNode, count: int) -> str | None:
    if all(constant is not None for constant in node.constants[:count]):
        return "all operands are constants; fold the op"
    return None


@TABLE.lowers(top.Where, "bf16", "int8")
class WhereAny(InBf16):
    """Multiplies each branch by its condition and adds them: one of the products is always 0."""

    def lower(self, node: LoweringNode[top.Where], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        steps = Bf16Composer(node, build)
        given = node.constants[0]
        if given is not None:
            truth = steps.constant((given != 0).astype(np.float32))
            other = steps.constant((given == 0).astype(np.float32))
        else:
            truth = _truth(steps, steps.operand(0))
            other = steps.inverted(truth)
        parts = (
            (truth, op.x_const_val if op.x_is_const else None, 1),
            (other, op.y_const_val if op.y_is_const else None, 2),
        )
        chosen = [_part(steps, share, number, index) for share, number, index in parts]
        return steps.last(steps.do(tpu.Add(), chosen) if len(chosen) > 1 else chosen[0])


def _part(steps: Bf16Composer, share: Value, number: float | None, index: int) -> Value:
    """A branch where it is selected, else 0; the computed operand comes first."""
    if number is not None:
        branch = steps.constant(np.full((1,) * len(share.tensor.dims), number, np.float32))
    else:
        branch = steps.operand(index)
    is_constant = number is not None or steps.node.constants[index] is not None
    return steps.do(tpu.Mul(), [share, branch] if is_constant else [branch, share])


@TABLE.lowers(top.Round, "bf16")
@TABLE.lowers(top.Floor, "bf16")
@TABLE.lowers(top.Ceil, "bf16")
class RoundBf16(InBf16):
    """Adding 128 removes the fraction; larger numbers have none. Positive and negative numbers are rounded
    separately.
    """

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps = Bf16Composer(node, build)
        value = steps.operand()
        if isinstance(node.op, top.Floor):
            return steps.last(self._floor(steps, value))
        whole = self._nearest(steps, value)
        if isinstance(node.op, top.Ceil):
            whole = steps.do(tpu.Add(), [whole, steps.is_positive(steps.do(tpu.Sub(), [value, whole]))])
        return steps.last(whole)

    def _nearest(self, steps: Bf16Composer, value: Value) -> Value:
        above = self._magnitude(steps, steps.do(tpu.Max(), [value, self._zero(steps, value)]))
        below = self._magnitude(steps, steps.do(tpu.Max(), [steps.times(value, -1.0), self._zero(steps, value)]))
        return steps.do(tpu.Sub(), [above, below])

    def _floor(self, steps: Bf16Composer, value: Value) -> Value:
        whole = self._nearest(steps, value)
        return steps.do(tpu.Sub(), [whole, steps.is_positive(steps.do(tpu.Sub(), [whole, value]))])

    def _zero(self, steps: Bf16Composer, value: Value) -> Value:
        return steps.constant(np.zeros((1,) * len(value.tensor.dims), np.float32))

    def _magnitude(self, steps: Bf16Composer, value: Value) -> Value:
        near = steps.within(value, 0.0, _WHOLE_FROM)
        whole = steps.plus(steps.plus(near, _WHOLE_FROM), -_WHOLE_FROM)
        return steps.do(tpu.Add(), [whole, steps.do(tpu.Sub(), [value, near])])


@TABLE.lowers(top.Cast, "bf16", "int8")
class CastAny(RoundBf16):
    """Casts within the precision of bf16: float types are copies, integer types truncate, those of 8 bits keep the low
    bits, which bf16 holds exactly.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        if node.op.to in (*_FLOATS, *_INTEGERS, *_BYTES, "BOOL"):
            return None
        return f"types {', '.join((*_FLOATS, *_INTEGERS, *_BYTES, 'BOOL'))}, this one is {node.op.to}"

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps = Bf16Composer(node, build)
        value = steps.operand()
        if node.op.to in _FLOATS:
            return steps.last(value)
        if node.op.to == "BOOL":
            return steps.last(_truth(steps, value))
        signs = (value, steps.times(value, -1.0))
        above, below = (self._cut(steps, steps.do(tpu.Max(), [one, self._zero(steps, value)])) for one in signs)
        whole = steps.do(tpu.Sub(), [above, below])
        return steps.last(self._low_bits(steps, whole, node.op.to) if node.op.to in _BYTES else whole)

    def _low_bits(self, steps: Bf16Composer, whole: Value, to: str) -> Value:
        turns = self._floor(steps, steps.times(whole, 2.0**-8))
        low = steps.do(tpu.Sub(), [whole, steps.times(turns, 2.0**8)])
        if to == "UINT8":
            return low
        upper = steps.inverted(steps.is_positive(steps.plus(steps.times(low, -1.0), 2.0**7)))
        return steps.do(tpu.Sub(), [low, steps.times(upper, 2.0**8)])

    def _cut(self, steps: Bf16Composer, value: Value) -> Value:
        whole = self._magnitude(steps, value)
        return steps.do(tpu.Sub(), [whole, steps.is_positive(steps.do(tpu.Sub(), [whole, value]))])


@TABLE.lowers(top.Sign, "bf16")
class SignBf16(InBf16):
    """A steep slope, clamped to -1..1."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        steps = Bf16Composer(node, build)
        steep = steps.times(steps.within(steps.operand(), -1.0, 1.0), 2.0**126)
        return steps.last(steps.within(steep, -1.0, 1.0))
