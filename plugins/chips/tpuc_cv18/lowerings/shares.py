"""Interpolation weights as whole numbers over a power of two that fit in a byte, and triangle filters."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import Uniform
from tpuc_chip_parts.lowering import STEPS

from tpuc_cv18.lowerings.common import Array

_PARTS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Denominators for which interpolation weights may be whole numbers."""
_NEARLY = 0.999
"""Safety factor that keeps multipliers below 1."""


def parts_of(shares: Array) -> int:
    """The denominator for which all weights are whole numbers that fit in a byte; 0 if there is none."""
    largest = float(np.abs(shares).max(initial=0.0))
    return next((parts for parts in _PARTS if not (shares * parts % 1).any() and 0 < largest * parts <= STEPS), 0)


def reaches(shares: Array, source: Uniform, result: Uniform) -> bool:
    """True when bytes have room for the weights as whole numbers, times the ratio of operand step to result step."""
    parts = parts_of(shares)
    room = STEPS // max(float(np.abs(shares).max(initial=0.0)) * parts, 1.0)
    return source.scale < result.scale * parts * room * _NEARLY


def triangle(factor: int, *, is_centered: bool) -> tuple[Array, int, int]:
    """Weights of one position in the surrounding results, and how many results to crop before and after.

    Result o corresponds to operand position ``(o + 1/2) / factor - 1/2``, or ``o / factor``. A position's weight
    decreases linearly with the distance and is 0 at the next position.
    """
    if factor == 1:
        return np.ones(1), 0, 0
    # Offset of the first position from result 0, in results: centered filters have one border position in front.
    first = -(factor + 1) / 2 if is_centered else 0.0
    cut = math.floor(factor - 1e-9 - first)
    places = np.arange(2 * factor + 1) - cut - first
    shares = 1 - np.abs(places) / factor
    shares = shares[: int(np.flatnonzero(shares > 0)[-1]) + 1]
    behind = len(shares) - cut + (factor if is_centered else 0)
    return shares, cut, behind
