"""The arithmetic of stored integers once more, in Python integers and fractions, without numpy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

HALF = Fraction(1, 2)


def half_up(value: Fraction) -> int:
    return math.floor(value + HALF)


def half_away(value: Fraction) -> int:
    return half_up(value) if value >= 0 else -half_up(-value)


def half_to_even(value: Fraction) -> int:
    return round(value)


ROUNDINGS = {"HalfUp": half_up, "HalfAwayFromZero": half_away, "HalfToEven": half_to_even, "Down": math.floor}


def saturated(value: int, dtype: str) -> int:
    limits = np.iinfo(dtype)
    return min(max(value, int(limits.min)), int(limits.max))


def scaled(value: int, multiplier: int, shift: int) -> Fraction:
    return Fraction(value * multiplier) / Fraction(2) ** shift


def conv(
    x: Any, w: Any, strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int], group: int, fill: int
) -> list[tuple[tuple[int, ...], int]]:
    """Sums of products by output position; outside of `x` lies `fill`."""
    (n, c, height, width), (oc, depth, kh, kw) = x.shape, w.shape
    rows = (height + pads[0] + pads[2] - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (width + pads[1] + pads[3] - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    result: list[tuple[tuple[int, ...], int]] = []
    for image, o, i, j in itertools.product(range(n), range(oc), range(rows), range(columns)):
        first = o // (oc // group) * (c // group)
        total = 0
        for d, a, b in itertools.product(range(depth), range(kh), range(kw)):
            row = i * strides[0] - pads[0] + a * dilations[0]
            column = j * strides[1] - pads[1] + b * dilations[1]
            inside = 0 <= row < height and 0 <= column < width
            total += (int(x[image, first + d, row, column]) if inside else fill) * int(w[o, d, a, b])
        result.append(((image, o, i, j), total))
    return result
