"""Quantize floats to the types that a compiled network stores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.ir import Uniform


def quantize(values: NDArray[Any], element: Uniform) -> NDArray[Any]:
    """Quantize as an input Cast does: times f32(1 / scale), plus zero point, each rounded to float32, then rounded half
    away from zero and saturated.
    """
    with np.errstate(over="ignore"):
        scaled = values.astype(np.float32) * np.float32(1.0 / element.scale) + np.float32(element.zero_point)
    return _saturated(np.trunc(scaled.astype(np.float64) + np.copysign(0.5, scaled)), element)


def quantize_evenly(values: NDArray[Any], element: Uniform) -> NDArray[Any]:
    """Quantize as ONNX's QuantizeLinear does: a float32 quotient rounded half to even, plus zero point, saturated."""
    with np.errstate(over="ignore"):
        rounded = np.rint(values.astype(np.float32) / np.float32(element.scale)).astype(np.float64)
    return _saturated(rounded + element.zero_point, element)


def _saturated(whole: NDArray[Any], element: Uniform) -> NDArray[Any]:
    prefix = "u" if element.storage.is_unsigned else ""
    return np.clip(whole, *element.bounds).astype(f"{prefix}int{element.storage.bits}")


def is_plain(element: Uniform) -> bool:
    """True if the stored integers represent themselves, such as pixels."""
    return element.scale == 1.0 and element.zero_point == 0
