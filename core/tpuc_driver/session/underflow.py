"""Find values that a float type of the compiled network represents with few digits, or as 0."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from tpuc.ir import F32, Module, ScalarType, TensorType
from tpuc.ir.dtypes import numpy_dtype
from tpuc.ir.traits import Constant

_FLOAT_MODES = ("f32", "f16", "bf16")
_SHOWN = 4
"""Number of names in a message, the smallest values first."""
_FEWEST_STEPS = 16
"""A value whose maximum is fewer steps of its type above 0 keeps less than two digits."""


@dataclass(frozen=True)
class Underflow:
    """Value that reaches only `magnitude` and is stored in `type`."""

    name: str
    type: ScalarType
    magnitude: float

    def __str__(self) -> str:
        return f"value '{self.name}' up to {self.magnitude:.3g}"


@functools.cache
def step_of(type: ScalarType) -> float:
    """Return the smallest positive number of a float type."""
    from ml_dtypes import finfo

    return float(cast(Any, finfo(numpy_dtype(type))).smallest_subnormal)


def find_underflows(tpu: Module, ranges: Mapping[str, float]) -> list[Underflow]:
    """Return values of a compiled module whose range in the original network (by name) spans only a few steps of their
    type.
    """
    found: list[Underflow] = []
    for operation in tpu.walk():
        for result in () if isinstance(operation.op, Constant) else operation.results:
            magnitude = ranges.get(result.name, 0.0)
            if isinstance(result.type, TensorType) and _is_coarse(result.type.storage, magnitude):
                found.append(Underflow(result.name, result.type.storage, magnitude))
    return found


def _is_coarse(type: ScalarType, magnitude: float) -> bool:
    if not type.is_float or step_of(type) <= step_of(F32) * 2.0**64:  # the exponents of float32
        return False
    return 0 < magnitude < _FEWEST_STEPS * step_of(type)


def underflow_sentences(found: Sequence[Underflow], modes: Sequence[str]) -> list[str]:
    """Return one remark per type, with advice; `modes` are the chip's modes."""
    result: list[str] = []
    for type in dict.fromkeys(one.type for one in found):
        mine = sorted((one for one in found if one.type == type), key=lambda one: one.magnitude)
        more = f" and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
        wider = [mode for mode in modes if mode in _FLOAT_MODES and step_of(ScalarType(mode)) < step_of(type)]
        way_out = "scale them up"
        if wider:
            way_out = f"keep the ops around them in {' or '.join(wider)} (--quantize-table), or all with --quantize"
        result.append(
            f"{type} has steps of {step_of(type):.3g} around 0, too coarse for {', '.join(map(str, mine[:_SHOWN]))}"
            f"{more}: they lose precision or become 0; {way_out}"
        )
    return result
