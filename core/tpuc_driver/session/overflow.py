"""Find values that a float type of the compiled network cannot represent, before they become infinite."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.interpreter import Interpreter
from tpuc.ir import F32, Module, Operation, ScalarType, TensorType, Value
from tpuc.ir.dtypes import as_stored, numpy_dtype
from tpuc.ir.traits import Constant

from tpuc_driver.data import SampleSource
from tpuc_driver.session.compare import ENDLESS, meanings

Array: TypeAlias = npt.NDArray[Any]

MOST_SAMPLES = 8
"""Number of samples to search for large values; few suffice, because no average is needed."""
_FLOAT_MODES = ("f32", "f16", "bf16")
_SHOWN = 4
"""Number of names in a message, the largest values first."""
_PART = 1 << 18
"""Numbers of an array that are looked at together."""
_CONSTANT_FIELD = "const_val"
"""Suffix of op fields that hold a constant operand."""


@dataclass(frozen=True)
class Overflow:
    """Value, or weights of an op, that reach `magnitude` but are stored in `type`. Constants are clipped to the type's
    range.
    """

    what: str
    name: str
    type: ScalarType
    magnitude: float
    is_constant: bool = False

    def __str__(self) -> str:
        return f"{self.what} '{self.name}' up to {self.magnitude:,.6g}"


@functools.cache
def limit_of(type: ScalarType) -> float:
    """Return the largest finite number of a float type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(numpy_dtype(type)).max)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]


def is_narrow(type: ScalarType) -> bool:
    """Return whether the largest number of a float type is below ENDLESS."""
    return type.is_float and limit_of(type) < ENDLESS


def has_less_than_f32(type: ScalarType) -> bool:
    """Return whether a float type has a smaller range than float32."""
    return type.is_float and limit_of(type) < limit_of(F32)


def magnitudes(values: Mapping[str, Array]) -> dict[str, float]:
    """Return the largest magnitude of each numeric value, ignoring numbers that count as infinite."""
    return {name: _magnitude(array) for name, array in values.items() if array.dtype.kind in "fiu"}


def has_limits(mode: str) -> bool:
    """Return whether the mode computes in a narrow float type."""
    return mode in _FLOAT_MODES and is_narrow(ScalarType(mode))


def seen_magnitudes(module: Module, samples: SampleSource) -> dict[str, float]:
    """Return the largest magnitude of each value of a TOP module on the first samples."""
    interpreter = Interpreter(module)
    rows = islice(samples, MOST_SAMPLES)
    return merged(magnitudes(meanings(module, interpreter.run(row, "all"))) for row in rows)


def merged(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Merge magnitudes by name, keeping the largest."""
    result: dict[str, float] = {}
    for part in parts:
        for name, magnitude in part.items():
            result[name] = max(magnitude, result.get(name, 0.0))
    return result


def find_overflows(top: Module, tpu: Module, ranges: Mapping[str, float]) -> list[Overflow]:
    """Return values of a compiled module whose range in the original network (by name) exceeds their type, and
    constants that were clipped to the largest number of their type.
    """
    sources = {operation.name: operation for operation in top.walk() if operation.results}
    known = dict(ranges)
    found: list[Overflow] = []
    for operation in tpu.walk():
        for result in operation.results:
            if not isinstance(result.type, TensorType):
                continue
            if isinstance(operation.op, Constant):
                found += _weight(tpu, top, sources, result)
                continue
            magnitude = known.setdefault(result.name, _of_operand(operation, known))
            if _is_beyond(magnitude, result.type.storage):
                found.append(Overflow("value", result.name, result.type.storage, magnitude))
        found += _numbers(operation, sources.get(operation.name))
    return found


def sentences(found: Sequence[Overflow], modes: Sequence[str]) -> list[str]:
    """Return one remark per type and kind (values, constants), with advice; `modes` are the chip's modes."""
    result: list[str] = []
    for type, is_constant in dict.fromkeys((one.type, one.is_constant) for one in found):
        mine = [one for one in found if (one.type, one.is_constant) == (type, is_constant)]
        mine.sort(key=lambda one: -one.magnitude)
        fate = f"are clamped to {limit_of(type):,.6g}" if is_constant else "become infinite"
        more = f" and {len(mine) - _SHOWN} more" if len(mine) > _SHOWN else ""
        names = ", ".join(map(str, mine[:_SHOWN]))
        wider = [mode for mode in modes if _is_wider(mode, type)]
        way_out = "scale them down"
        if wider:
            way_out = f"keep the ops around them in {' or '.join(wider)} (--quantize-table), or all with --quantize"
        result.append(
            f"{type} (largest value {limit_of(type):,.6g}) cannot represent {names}{more}: they {fate}; {way_out}"
        )
    return result


def _is_wider(mode: str, type: ScalarType) -> bool:
    return mode in _FLOAT_MODES and limit_of(ScalarType(mode)) > limit_of(type)


def _is_beyond(magnitude: float, type: ScalarType) -> bool:
    return is_narrow(type) and limit_of(type) < magnitude < ENDLESS


def _magnitude(array: Array) -> float:
    values = np.abs(array.astype(np.float64))
    return float(values[values < ENDLESS].max(initial=0.0))


def _of_operand(operation: Operation, known: Mapping[str, float]) -> float:
    """Return the range of a value without a name in the network: a cast has the range of its operand."""
    tensors = [operand for operand in operation.operands if isinstance(operand.type, TensorType)]
    is_cast = (
        len(tensors) == len(operation.results) == 1
        and tensors[0].tensor.dims == operation.result.tensor.dims
        and tensors[0].tensor.storage != operation.result.tensor.storage
    )
    return known.get(tensors[0].name, 0.0) if is_cast else 0.0


def _weight(tpu: Module, top: Module, sources: Mapping[str, Operation], value: Value) -> list[Overflow]:
    """Return weights that are at the limit of their type in the compiled module but larger in the network."""
    type = value.tensor
    if not has_less_than_f32(type.storage):
        return []
    limit = limit_of(type.storage)
    if not _reaches(as_stored(tpu.weights[value.name], type), limit):
        return []
    readers = [user for user, _ in value.uses] or [None]
    name = value.name if readers[0] is None else readers[0].name
    source = sources.get(name)
    given = _constants(top, sources.values() if source is None else [source])
    numbers = [] if source is None else [number for number in _held(source.op, _fields(source)) if number < math.inf]
    largest = max((*map(_finite, given), *numbers), default=0.0)
    return [Overflow("weights of", name, type.storage, largest, True)] if largest > limit else []


def _reaches(array: Array, limit: float) -> bool:
    """Return whether a magnitude is `limit` or more; a part of the array at a time is held as float32."""
    flat = array.reshape(-1)
    parts = (flat[first : first + _PART].astype(np.float32) for first in range(0, flat.size, _PART))
    return any((np.abs(part) >= limit).any() for part in parts)


def _constants(module: Module, operations: Iterable[Operation]) -> list[Array]:
    names = {operand.name for operation in operations for operand in operation.operands if operand.is_constant}
    return [module.weights[name] for name in names]


def _finite(array: Array) -> float:
    """Return the largest finite magnitude."""
    values = np.abs(array.astype(np.float64))
    return float(values[np.isfinite(values)].max(initial=0.0))


def _fields(operation: Operation) -> list[str]:
    """Return the names of the op's fields that hold a constant operand."""
    if not dataclasses.is_dataclass(operation.op):
        return []
    return [field.name for field in dataclasses.fields(operation.op) if field.name.endswith(_CONSTANT_FIELD)]


def _held(op: Any, fields: Iterable[str]) -> list[float]:
    return [abs(float(getattr(op, name))) for name in fields if hasattr(op, name)]


def _numbers(operation: Operation, source: Operation | None) -> list[Overflow]:
    """Return constant operands in fields of the op that exceed its type."""
    if source is None or not operation.results:
        return []
    type = operation.result.type
    if not isinstance(type, TensorType):
        return []
    fields = _fields(source)
    if not has_less_than_f32(type.storage):
        return []
    limit = limit_of(type.storage)
    beyond = [number for number in _held(source.op, fields) if limit < number < math.inf]
    if max(_held(operation.op, fields), default=0.0) < limit:
        return []  # it is elsewhere, or smaller: numbers of masks are where a chip has no infinity
    return [Overflow("number in", operation.name, type.storage, number, True) for number in beyond]
