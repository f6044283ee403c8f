"""Interpolation weights: as whole numbers of parts of 1 that bytes hold, and triangles around every place."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import Uniform
from tpuc_chip_parts.lowering import STEPS

from tpuc_cv18.lowerings.common import Array

_PARTS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Of 1, which shares may be whole numbers of."""
_NEARLY = 0.999
"""Of it, which leaves multipliers below 1."""


def parts_of(shares: Array) -> int:
    """The number of parts of 1 that all shares are whole numbers of, as many as bytes hold; 0: there is none."""
    largest = float(np.abs(shares).max(initial=0.0))
    return next((parts for parts in _PARTS if not (shares * parts % 1).any() and 0 < largest * parts <= STEPS), 0)


def reaches(shares: Array, source: Uniform, result: Uniform) -> bool:
    """Have bytes room for shares as whole numbers, times what makes of a step of the operand one of the result?"""
    parts = parts_of(shares)
    room = STEPS // max(float(np.abs(shares).max(initial=0.0)) * parts, 1.0)
    return source.scale < result.scale * parts * room * _NEARLY


def triangle(factor: int, *, is_centred: bool) -> tuple[Array, int, int]:
    """Shares of a place in the results around it, and how many results are cut off before and behind.

    Result o lies at ``(o + 1/2) / factor - 1/2`` of the operand, or at ``o / factor``; a place's share falls with the
    distance and is nothing at the next place.
    """
    if factor == 1:
        return np.ones(1), 0, 0
    # In results, how far the first place lies from result 0: one border place is there in front of centred ones.
    first = -(factor + 1) / 2 if is_centred else 0.0
    cut = math.floor(factor - 1e-9 - first)
    places = np.arange(2 * factor + 1) - cut - first
    shares = 1 - np.abs(places) / factor
    shares = shares[: int(np.flatnonzero(shares > 0)[-1]) + 1]
    behind = len(shares) - cut + (factor if is_centred else 0)
    return shares, cut, behind
