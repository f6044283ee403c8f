"""Code shared by kernels: type checks, constant operands, and conversion of sums to stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tpuc.api import FunctionNode, Node, TensorType, Unsupported
from tpuc_ops.integers import is_integer, zero_point
from tpuc_ops.shapes import is_absent

from tpuc_c.text import c_type, fields, integer, number

Array = npt.NDArray[Any]
ROUNDINGS = {
    "HalfAwayFromZero": "TPUC_HALF_AWAY_FROM_ZERO",
    "HalfUp": "TPUC_HALF_UP",
    "HalfDown": "TPUC_HALF_DOWN",
    "HalfToEven": "TPUC_HALF_TO_EVEN",
    "HalfToOdd": "TPUC_HALF_TO_ODD",
    "HalfTowardsZero": "TPUC_HALF_TOWARDS_ZERO",
    "TowardsZero": "TPUC_TOWARDS_ZERO",
    "Up": "TPUC_UP",
    "Down": "TPUC_DOWN",
}
"""Rounding constants of the library, by attribute value."""
GREATEST_SHIFT = 62
LEAST_SHIFT = -31


def refuse_types(node: Node[Any]) -> str | None:
    """The refusal of types without a C equivalent, None if all are supported."""
    for type in (*node.operand_types, *node.result_types):
        if not is_absent(type) and c_type(type.storage) is None:
            return f"only f32 and integers of 8, 16 and 32 bits, this one has {type.storage}"
    return None


def is_byte(type: TensorType) -> bool:
    """True for stored 8-bit integers."""
    return is_integer(type) and type.storage.bits == 8


def is_unsigned(type: TensorType) -> bool:
    """True for stored unsigned bytes."""
    return c_type(type.storage) == "uint8_t"


@dataclass
class Operands:
    """The C names of a call's operands; constants are collected when they are requested."""

    call: FunctionNode[Any]
    constants: list[Array] = field(default_factory=list[Array])

    def name(self, index: int) -> str:
        """The pointer name of an operand, which may be a constant."""
        array = self.call.array(index)
        return f"x{index}" if array is None else self.add(array)

    def add(self, array: Array) -> str:
        """Add a constant; return its pointer name."""
        self.constants.append(array)
        return f"k{len(self.constants) - 1}"


def refuse_shifts(shifts: Sequence[int]) -> str | None:
    """The refusal of shifts beyond 64-bit arithmetic, None if supported."""
    for shift in shifts:
        if not LEAST_SHIFT <= shift <= GREATEST_SHIFT:
            return f"shifts from {LEAST_SHIFT} to {GREATEST_SHIFT}, this one is {shift}"
    return None


def refuse_requantization(
    multipliers: Sequence[int], shifts: Sequence[int], mode: str, scales: Sequence[float], result: TensorType
) -> str | None:
    """The refusal of unsupported requantization parameters, None if supported."""
    if mode in ("QDM", "TFLite") and any(not -31 <= shift <= 31 for shift in shifts):
        return "shifts from -31 to 31 where products are doubled"
    if any(abs(multiplier) >= 1 << 31 for multiplier in multipliers):
        return "multipliers of at most 31 bits"
    if not (multipliers or shifts or scales):
        return None
    if not is_byte(result):
        return f"only results of 8 bits, this one has {result.storage}"
    return refuse_shifts(shifts)


@dataclass(frozen=True)
class Requantization:
    """Conversion of int32 sums to stored values; `bias` and the factors have one entry per channel."""

    bias: Array
    multipliers: Sequence[int]
    shifts: Sequence[int]
    mode: str
    scales: Sequence[float]
    rounding: str
    zero_point: int
    low: int
    high: int
    offset: float = 0.0

    def kind(self) -> str:
        """The library's name for it."""
        if self.scales:
            return "TPUC_SCALE_TO_EVEN" if self.rounding == "HalfToEven" else "TPUC_SCALE_ANY"
        if not self.shifts:
            return "TPUC_SUMS"
        if self.mode in ("QDM", "TFLite"):
            return "TPUC_DOUBLING"
        return "TPUC_SHIFT_HALF_UP" if self.rounding == "HalfUp" and min(self.shifts) > 0 else "TPUC_SHIFT_ANY"

    def text(self, operands: Operands) -> str:
        """The C declaration of `out`."""
        count = self.bias.size
        values: dict[str, object] = {
            "kind": self.kind(),
            "rounding": ROUNDINGS[self.rounding],
            "zero_point": self.zero_point,
            "low": integer(self.low),
            "high": integer(self.high),
            "bias": operands.add(self.bias.astype(np.int32)),
        }
        if self.scales:
            values |= {"offset": number(self.offset), "scale": operands.add(_spread(self.scales, count, np.float32))}
        elif self.shifts:
            ones = (1,) * len(self.shifts) if self.mode == "OnlyShift" else self.multipliers
            values["multiplier"] = operands.add(_spread(ones, count, np.int32))
            values["shift"] = operands.add(_spread(self.shifts, count, np.int32))
        return f"const tpuc_output out = {{{fields(values)}}};\n"


def has_computed_bias(call: FunctionNode[Any], count: int | None = None) -> bool:
    """True when the third operand is present and computed. Raises Unsupported unless it has `count` values."""
    if len(call.operands) < 3 or call.operands[2] is None or call.array(2) is not None:
        return False
    if count is not None and call.operand(2).type.size != count:
        raise Unsupported(f"node '{call.node.name}': {call.op.name} on c: a computed bias must have {count} values")
    return True


def check_constant_bias(call: FunctionNode[Any]) -> None:
    """Raise Unsupported for a computed integer bias."""
    if has_computed_bias(call):
        raise Unsupported(f"node '{call.node.name}': {call.op.name} on c: an integer bias must be constant")


def _spread(values: Sequence[float], count: int, dtype: type[np.generic]) -> Array:
    """Broadcast to one value per channel."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(values, dtype), (count,)))


def relu_bounds(do_relu: bool, limit: float) -> tuple[str, str]:
    """The bounds of a float result, as C literals."""
    if not do_relu:
        return "-INFINITY", "INFINITY"
    return "0.0f", number(limit) if limit > 0 else "INFINITY"


def point(type: TensorType) -> int:
    """The zero point of integers, 0 for floats."""
    return zero_point(type)
