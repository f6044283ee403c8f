"""Round values to narrower element types."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tpuc_ops.arrays import Array

_FLOATS = {
    "FLOAT": "float32",
    "DOUBLE": "float64",
    "FLOAT16": "float16",
    "BFLOAT16": "bfloat16",
    "FLOAT8E4M3FN": "float8_e4m3fn",
    "FLOAT8E4M3FNUZ": "float8_e4m3fnuz",
    "FLOAT8E5M2": "float8_e5m2",
    "FLOAT8E5M2FNUZ": "float8_e5m2fnuz",
    "FLOAT8E8M0": "float8_e8m0fnu",
    "FLOAT4E2M1": "float4_e2m1fn",
}


_LARGEST = {
    "float4_e2m1fn": 6.0,
    "float8_e4m3fn": 448.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2": 57344.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e8m0fnu": 2.0**127,
}
"""The largest finite number of each format."""


def narrowed(x: Array, to: str, saturate: bool = True) -> Array:
    """Convert `x` to the element type `to` (an ONNX name); raises ValueError for an unknown one."""
    if to == "BOOL":
        return x != 0
    if to in _FLOATS:
        return _narrowed_float(x, np.dtype(getattr(ml_dtypes, _FLOATS[to], None) or _FLOATS[to]), saturate)
    if not to.lstrip("U").startswith("INT"):
        raise ValueError(f"there is no element type {to}")
    bits, unsigned = int(to.lstrip("UINT")), to.startswith("U")
    return _low_bits(x, bits, unsigned)


def _narrowed_float(x: Array, dtype: np.dtype, saturate: bool) -> Array:
    with np.errstate(all="ignore"):
        if dtype.name == "float8_e8m0fnu":  # powers of two only: the next larger one
            x = _power_from(x)
        if dtype.itemsize == 1 and saturate:
            x = np.clip(x, -_LARGEST[dtype.name], _LARGEST[dtype.name])
        return x.astype(dtype)


def _power_from(x: Array) -> Array:
    """Round up to powers of two, from 2**-127 on."""
    part, exponent = np.frexp(x)
    exponent = np.where(part == 0, -127, exponent - (part == 0.5))  # a zero has exponent 0
    powers = np.ldexp(np.float32(1), np.maximum(exponent, -127))
    return np.where(np.isfinite(x) & (x >= 0), powers, np.where(x > 0, x, np.nan))


def _low_bits(x: Array, bits: int, unsigned: bool) -> Array:
    """Truncate toward 0; types below 32 bits keep the low bits of an overflow, wider ones saturate. NaN and infinities
    become 0.
    """
    whole = np.trunc(np.where(np.isfinite(x), x, 0)).astype(np.float64)
    span = float(1 << bits)
    if bits >= 32:  # such numbers are not exact in float32 anyway: stay within the type
        low = 0.0 if unsigned else -span / 2
        return np.clip(whole, low, low + span - 1)
    rest = np.mod(whole, span)
    return rest if unsigned else np.where(rest >= span / 2, rest - span, rest)
