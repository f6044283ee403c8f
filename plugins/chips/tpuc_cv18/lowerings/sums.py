"""Multipliers of sums: signed bytes with one shift for all operands, and a matching result scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import TensorType

from tpuc_cv18.lowerings.common import MAX_SHIFT

_WIDE, _UNSIGNED_SHIFT = 32767, 8
"""Limit of 16-bit sums, and the largest shift at which their low byte is a whole unsigned one."""
_LIMIT, _LEFT = 127, 15
_NARROWEST, _WIDEST = 1 - 2.0**-7, 1 + 2.0**-4
"""Range in which the scale of the result may move: down by less than one step of clipping at the threshold."""
_USUAL = 16.0
"""A factor that every sum supports."""
_ROUNDING = 1 / 12  # the variance of the rounding error of integers
_CREST = 4.0  # typical ratio of calibrated threshold to root mean square


@dataclass(frozen=True)
class Multipliers:
    """`multipliers / 2**shift` are the factors for a result whose scale is `widening` times the wanted one."""

    multipliers: tuple[int, ...]
    shift: int
    widening: float


def choose_multipliers(
    factors: Sequence[float], types: Sequence[TensorType], result: TensorType, *, fixed: bool
) -> Multipliers:
    """Choose multipliers, shift and scale with the least error; the scale does not move when `fixed`.

    A multiplier is a signed byte. The largest one may also have a power of two as a factor, because its product can be
    shifted left before the next one is added. The whole sum must fit 16 bits where it passes through them. The result's
    scale moves so that the largest factor is exact. The error sums the deviation of the other factors at typical values
    and the rounding of the result, in steps of the wanted scale. Where only the largest factors are left of the result,
    as in the difference of equal operands, its scale becomes that of the operands' steps.

    Raises ValueError when `fixed` and no multipliers represent the factors.
    """
    steps = [255 if type_.storage.is_unsigned else 128 for type_ in types]
    unsigned = result.storage.is_unsigned
    is_wide = len(factors) > 2 or (unsigned and (min(steps) < 255 or min(factors) < 0))
    best: tuple[float, Multipliers] | None = None
    for shift in range((_UNSIGNED_SHIFT if unsigned else MAX_SHIFT) + 1):
        for choice in _choices(factors, shift, fixed):
            if is_wide and np.dot(np.abs(choice.multipliers), steps) > _WIDE:
                continue
            error = _error(choice, factors, steps)
            if best is None or error < best[0]:
                best = (error, choice)
    if best is None and not fixed:
        beyond = max(map(abs, factors)) / _USUAL
        coarse = choose_multipliers([factor / beyond for factor in factors], types, result, fixed=True)
        return Multipliers(coarse.multipliers, coarse.shift, coarse.widening * beyond)
    if best is None:
        shown = ", ".join(f"{factor:g}" for factor in factors)
        raise ValueError(
            f"the operands' scales are {shown} times that of the result, beyond the chip's multipliers; quantize the "
            "network again with a larger range for the result, or compute the op in bf16 with --quantize-table"
        )
    return best[1]


def _choices(factors: Sequence[float], shift: int, fixed: bool) -> Iterator[Multipliers]:
    """All multipliers of the largest factor that keep the result's scale near the wanted one, with the best ones of the
    others.
    """
    largest = max(range(len(factors)), key=lambda index: abs(factors[index]))
    scaled = abs(math.ldexp(factors[largest], shift))
    left = max(0, math.ceil(math.log2(scaled / _LIMIT))) if scaled else 0
    if left > _LEFT:
        return
    scaled = math.ldexp(scaled, -left)
    near = range(math.ceil(scaled / _WIDEST), min(math.floor(scaled / _NARROWEST), _LIMIT) + 1)
    movable = not fixed and len(near) > 0 and near[0] > 0
    for byte in near if movable else (min(round(scaled), _LIMIT),):
        widening = scaled / byte if movable else 1.0
        multipliers = [round(math.ldexp(factor / widening, shift)) for factor in factors]
        multipliers[largest] = int(math.copysign(byte << left, factors[largest]))
        if all(abs(value) <= _LIMIT for index, value in enumerate(multipliers) if index != largest):
            yield Multipliers(tuple(multipliers), shift, widening)


def _error(choice: Multipliers, factors: Sequence[float], steps: Sequence[int]) -> float:
    """Mean squared error in steps of the wanted scale. A scale that is too small costs as much as one that is too
    large.
    """
    power = _ROUNDING
    for multiplier, factor, step in zip(choice.multipliers, factors, steps, strict=True):
        power += ((math.ldexp(multiplier, -choice.shift) - factor / choice.widening) * step / _CREST) ** 2
    return power * max(choice.widening, 1 / choice.widening) ** 2
