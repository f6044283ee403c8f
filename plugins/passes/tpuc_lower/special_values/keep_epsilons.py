"""Keep divisors and logarithms in the chip's widest float type where a small constant that keeps them above 0 would
vanish.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from tpuc.api import (
    FLOAT_MODES,
    QUANTIZE_TABLE,
    Calibrated,
    Module,
    Op,
    Operation,
    Pass,
    PassContext,
    numpy_dtype,
)
from tpuc.api.evaluation import Array
from tpuc_ops import top
from tpuc_ops.traits import Repeats, StridedView, states

from tpuc_lower.lowering.cells import Cells
from tpuc_lower.special_values.raised_epsilons import epsilons_of, least_number, raise_numbers, raised_remark
from tpuc_lower.target.results import MODE

_STEPS = (top.AddConst, top.MulConst, top.Sqrt, top.Pow, top.Rsqrt, top.Reciprocal, top.Clip, top.MaxConst)
"""Ops that an epsilon may pass through on its way to the protected op, besides moves. This and `_SUMS` are the grammar
of expressions that are recognized as divisors, not facts about the ops.
"""
_SUMS = (top.Reduce, top.Mul, top.Sqrt, top.Pow, top.Abs, top.AddConst, top.MulConst, top.Clip, top.MaxConst)
"""Ops that compute variances and norms, whose small values are small squares."""
_UNSIGNED_STEPS = 255
_FEWEST_STEPS = 16
"""In units of a float type's smallest number: rounding changes a constant this large by at most 3 %."""


@dataclass(frozen=True)
class KeepEpsilons(Pass):
    """In modes too coarse for a small positive constant that is added to a divisor, or is its lower bound, as in ``x /
    max(norm, 1e-12)``, compute the ops from the norm's squares to the quotient in the chip's most precise float
    mode; likewise up to a logarithm or a reciprocal square root. Without the constant they would be infinite or NaN
    at 0; raised to the smallest number of the mode it would have another logarithm.

    The ops are added to the result `quantize_table`, after the user's own entries. A constant that leads to a
    divisor below the chip's smallest one is raised as far as necessary, with a remark.
    """

    name = "keep-epsilons"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        if context.find(MODE, ""):
            return False  # a network that is quantized already says itself where it is float
        cells = Cells.of(context, self.name)
        exact = cells.chip.compute_type
        raised: list[float] = []
        modes = dict[str, str](context.find(QUANTIZE_TABLE, {}))
        for operation in module.main.operations[:-1]:
            numbers = epsilons_of(module, operation)
            if not numbers.size or not (numbers > 0).all():
                continue
            users, power, divisors = _way(operation)
            least = least_number(users, divisors, cells.chip.least_divisor)
            if (numbers < least).any() and raise_numbers(module, operation, least):
                raised.append(least)
            if users and _is_coarse(operation, cells.mode_of(operation), numbers, power):
                for one in (operation, *users, *_sources([operation, *users])):
                    if cells.computes(one.op, exact):
                        modes.setdefault(one.name, exact)
        context.leave(QUANTIZE_TABLE, modes)
        if raised:
            context.remark(raised_remark(cells.chip, raised))
        return bool(raised)


def _is_coarse(operation: Operation, mode: str, numbers: Array, power: float) -> bool:
    """True if the numbers are below a few steps of a float or half a step of integers, or their powers infinite."""
    if mode in FLOAT_MODES:
        least, largest = _limits(mode)
        return bool((numbers < _FEWEST_STEPS * least).all() or (numbers**power > largest).all())
    element = operation.result.tensor.element
    return isinstance(element, Calibrated) and bool((numbers < element.threshold / _UNSIGNED_STEPS / 2).all())


def _limits(mode: str) -> tuple[float, float]:
    from ml_dtypes import finfo

    info = cast("np.finfo[Any]", finfo(numpy_dtype(FLOAT_MODES[mode])))
    return float(info.smallest_subnormal), float(info.max)


def _way(epsilon: Operation) -> tuple[list[Operation], float, list[float]]:
    """The ops from it up to quotients and logarithms, inclusive, its lowest power among their results, and its powers
    that divide; no ops where nothing is protected.
    """
    found: dict[Operation, None] = {}
    divisors: list[float] = []
    is_protected, lowest = False, 0.0
    waiting = [(epsilon.result, 1.0)]
    while waiting:
        value, power = waiting.pop()
        lowest = min(lowest, power)
        for user, index in value.uses:
            joins = power < 0 and isinstance(user.op, top.Mul)
            if power > 0 and (_divides_by(user, index) or isinstance(user.op, (top.Pow, top.Reciprocal))):
                divisors.append(power)
            if isinstance(user.op, top.Log) or joins or _divides_by(user, index):
                found[user], is_protected = None, True
            elif user not in found and _is_one_of(user.op, _STEPS):
                found[user] = None
                waiting.append((user.result, power * _exponent(user.op)))
                is_protected |= waiting[-1][1] < 0
    return (list(found) if is_protected else []), lowest, divisors


def _is_one_of(op: Op, kinds: tuple[type[Op], ...]) -> bool:
    return isinstance(op, kinds) or states(op, StridedView, Repeats)


def _exponent(op: Op) -> float:
    known: dict[type[Op], float] = {top.Sqrt: 0.5, top.Rsqrt: -0.5, top.Reciprocal: -1.0}
    return op.exponent if isinstance(op, top.Pow) else known.get(type(op), 1.0)


def _divides_by(user: Operation, index: int) -> bool:
    return isinstance(user.op, top.Div) and index == (0 if user.op.is_reverse else 1)


def _sources(chain: Sequence[Operation]) -> list[Operation]:
    """The ops that lead to it from squares, products or sums; a quotient's dividend counts as well."""
    found: dict[Operation, None] = {}
    waiting = [operand.defining for operation in chain for operand in operation.operands]
    while waiting:
        operation = waiting.pop()
        if operation is not None and operation not in found and _is_one_of(operation.op, _SUMS):
            found[operation] = None
            waiting += [operand.defining for operand in operation.operands]
    return list(found)
