"""How calibrated values are stored: the quantised element types that chips choose from."""

from __future__ import annotations

from tpuc.api import Calibrated, CalibrationError, ScalarType, TensorType, Uniform

from tpuc_ops.quant.arithmetic import symmetric_scale

_I8, _U8 = ScalarType("i8"), ScalarType("u8")


def symmetric_element(type: TensorType, divisor: int, name: str, *, unsigned: bool = True) -> Uniform:
    """int8 with zero point 0 and scale threshold / `divisor`; uint8 with threshold / 255 for values that are never
    negative, when `unsigned` (SPEC T1, T15). Thresholds below 1e-5 count as 1e-5 (SPEC 3.5).

    Raises CalibrationError when the value was not calibrated.
    """
    element = type.element
    if not isinstance(element, Calibrated):
        raise CalibrationError(
            f"value '{name}' has no calibration: the table does not belong to this network; calibrate it again with "
            "`tpuc calibrate`"
        )
    threshold = max(element.threshold, 1e-5)
    if unsigned and element.minimum >= 0:
        return Uniform(_U8, element.expressed, symmetric_scale(threshold, False))
    return Uniform(_I8, element.expressed, symmetric_scale(threshold, True, divisor))
