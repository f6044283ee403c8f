"""Choose the quantized element types of calibrated values."""

from __future__ import annotations

from tpuc.api import Calibrated, CalibrationError, ElementType, ScalarType, TensorType, Uniform, UniformPerAxis

from tpuc_ops.quant.arithmetic import asymmetric_scale, symmetric_scale, usable_threshold

_I8, _U8 = ScalarType("i8"), ScalarType("u8")


def byte_element(type: TensorType, mode: str, divisor: int, name: str) -> ElementType:
    """Return the element type of a value on a chip with 8-bit storage: asymmetric in mode int8-asym, else symmetric.
    Quantized values keep their type.

    Raises CalibrationError if the value was not calibrated.
    """
    if isinstance(type.element, (Uniform, UniformPerAxis)):
        return type.element
    if mode == "int8-asym":
        return asymmetric_element(type, name)
    return symmetric_element(type, divisor, name)


def symmetric_element(type: TensorType, divisor: int, name: str, *, unsigned: bool = True) -> Uniform:
    """Return int8 with zero point 0 and scale threshold / `divisor`, or, if `unsigned`, uint8 with threshold / 255 for
    values that are never negative.

    Raises CalibrationError if the value was not calibrated.
    """
    element = _calibrated(type, name)
    threshold = usable_threshold(element.threshold)
    if unsigned and element.minimum >= 0:
        return Uniform(_U8, element.expressed, symmetric_scale(threshold, False))
    return Uniform(_I8, element.expressed, symmetric_scale(threshold, True, divisor))


def asymmetric_element(type: TensorType, name: str) -> Uniform:
    """Return int8 with the scale and zero point that map [minimum, maximum], extended to contain 0, to -128..127.

    The range of values that are all 0 is [0, 1e-5]. Raises CalibrationError if the value was not calibrated.
    """
    element = _calibrated(type, name)
    low, high = min(element.minimum, 0.0), max(element.maximum, 0.0)
    if high - low < usable_threshold(high - low):
        low, high = 0.0, usable_threshold(high - low)
    scale, zero_point = asymmetric_scale(low, high)
    return Uniform(_I8, element.expressed, scale, zero_point)


def _calibrated(type: TensorType, name: str) -> Calibrated:
    element = type.element
    if not isinstance(element, Calibrated):
        raise CalibrationError(
            f"value '{name}' has no calibration: neither a table nor the network states its range; calibrate the "
            "network with `tpuc calibrate`, or keep the op that computes it in floats with --quantize-table"
        )
    return element
