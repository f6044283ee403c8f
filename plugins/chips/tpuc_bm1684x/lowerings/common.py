"""Numbers that several lowerings need: 8-bit multipliers, constants as bytes."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc_ops.quant.arithmetic import Rounding, decompose_search, round_to_int, saturate

Array: TypeAlias = npt.NDArray[Any]

decompose8 = partial(decompose_search, bits=8, lowest_shift=-7)
"""An int8 multiplier with a shift, to the left for factors beyond it (SPEC 3.2)."""

_SMALLEST = 1e-5  # thresholds below it count as it (SPEC 3.5)
_STEPS = 127
_GREATEST_SHIFT = 30


def bytes_of(constant: Array) -> tuple[Array, float, str]:
    """A constant as bytes with its scale and element type: unsigned where no value is negative."""
    unsigned = bool((constant >= 0).all())
    greatest = max(float(np.abs(constant).max(initial=0.0)), _SMALLEST)
    scale = greatest / (255 if unsigned else _STEPS)
    dtype, element = (np.uint8, "ui8") if unsigned else (np.int8, "si8")
    rounded = round_to_int(constant.astype(np.float64) / scale, Rounding.HALF_AWAY_FROM_ZERO)
    return saturate(rounded, dtype), scale, element


def quantised_constant(factors: Array) -> tuple[Array, int]:
    """Factors as int8 numerators over a common power of two: the greatest shift that keeps all within 127."""
    greatest = float(np.abs(factors).max(initial=0.0))
    shift = _GREATEST_SHIFT
    while shift > -7 and round(greatest * 2.0**shift) > _STEPS:
        shift -= 1
    numerators = round_to_int(factors.astype(np.float64) * 2.0**shift, Rounding.HALF_AWAY_FROM_ZERO)
    return saturate(numerators, np.int8), shift
