"""How far every op of a TOP module may be off what somebody else computed, by what its operands may be off.

Op after op is evaluated on the very operands that the other side had, so errors do not add up, and again on operands
moved by their rounding errors. What these movements change in the result is what roundings can excuse: much where a
value lies next to a threshold or a small number divides, nothing where it does not. A wrong op is outside.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Constant, Module, NetworkInput, Node, NoneType, Operation, Value, as_stored

from tests.fuzz.graphs.maker import Array

SMALLEST = 1e-2
"""Tensors without larger numbers are next to nothing beside what graphs compute with."""
MOVEMENTS = 7
"""All operands to what is rounded, all up, all down, and the rest in random directions."""
_UP, _DOWN = 2, 3
_TURNS = (*((turn, turn) for turn in range(MOVEMENTS + 1)), (_UP, _DOWN), (_DOWN, _UP))
"""Movements of operands at even and at odd places: beside the same for all, one up and the other down."""
INDEX_OPERANDS = {
    "top.Gather": 1,
    "top.GatherElements": 1,
    "top.GatherND": 1,
    "top.ScatterElements": 1,
    "top.ScatterND": 1,
}
"""Operands that are places."""


@dataclass(frozen=True)
class Known:
    """What somebody computed: real numbers, what rounding them to their type may have changed in each, and the least
    and greatest number of that type; `noise` is what it may change when an op reads it, and `reach` where it is cut off
    then: rounding may have carried it beyond its calibrated range.
    """

    array: Array
    step: float = 0.0
    low: float = -np.inf
    high: float = np.inf
    noise: float = 0.0
    reach: float = np.inf


@dataclass(frozen=True)
class Precision:
    """Of a way to compute: `relative` is the rounding of an operand, `requantized` that of a constant as a part of its
    largest, and a result may be off by `steps` of its type and `share` of its tensor's largest number besides.
    """

    relative: float
    share: float
    requantized: float = 0.0
    steps: float = 0.0


@dataclass(frozen=True)
class Deviation:
    """An op whose result is off by `ratio` times what is allowed; above 1 is wrong."""

    operation: Operation
    value: Value
    ratio: float
    error: float
    allowed: float

    def __str__(self) -> str:
        return f"'{self.value.name}' is off by {self.error:.4g} where {self.allowed:.4g} is allowed"


def deviations(
    module: Module, inputs: Mapping[str, Array], known: Mapping[str, Known], precision: Precision
) -> Iterator[Deviation]:
    """For every value of the module that is known, how far it is off."""
    random = np.random.default_rng(11)
    values: dict[int, list[Array]] = {}
    for operation in module.main.operations[:-1]:
        if isinstance(operation.op, NetworkInput):
            name = operation.results[0].name
            given = known.get(name, Known(np.asarray(inputs[name], np.float32)))
            values[id(operation.results[0])] = _moved(given, precision, random)
            continue
        if isinstance(operation.results[0].type, NoneType):
            continue
        if isinstance(operation.op, Constant):
            value = operation.results[0]
            array = as_stored(module.weights[value.name], value.tensor)
            values[id(value)] = _moved(Known(array, noise=_requantized(array, precision)), precision, random)
            continue
        results = _evaluated(operation, values)
        for index, value in enumerate(operation.results):
            if isinstance(value.type, NoneType):
                continue
            found = [result[index].reshape(value.tensor.dims) for result in results]
            one = known.get(value.name)
            if one is None:
                values[id(value)] = _moved_further(found[: MOVEMENTS + 1], precision)
            else:
                yield _compared(operation, value, one, found, precision)
                values[id(value)] = _moved(one, precision, random, value.tensor.dims)


def _evaluated(operation: Operation, values: Mapping[int, list[Array]]) -> list[Sequence[Array]]:
    node, places = Node.of(operation), INDEX_OPERANDS.get(operation.op.name)
    results: list[Sequence[Array]] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # movements may leave the domain of a function
        for turns in _TURNS:
            operands = [
                np.zeros(0, np.float32)
                if isinstance(value.type, NoneType)
                else values[id(value)][0 if index == places else turns[index % 2]]
                for index, value in enumerate(operation.operands)
            ]
            results.append(operation.op.evaluate(node, operands))
    return results


def _requantized(array: Array, precision: Precision) -> float:
    return precision.requantized * float(np.abs(array).max(initial=0.0)) if array.dtype.kind == "f" else 0.0


def _moved(one: Known, precision: Precision, random: np.random.Generator, dims: Sequence[int] = ()) -> list[Array]:
    array = np.asarray(one.array)
    array = array.reshape(tuple(dims) or array.shape)
    if array.dtype.kind != "f":
        return [array] * (MOVEMENTS + 1)
    center = array.astype(np.float64)
    if not center.size or (_is_exact(center, precision) and not one.step):
        cut = np.clip(center, -one.reach, one.reach)
        return [array.astype(np.float32), cut.astype(np.float32), *[array.astype(np.float32)] * (MOVEMENTS - 1)]
    noise = np.maximum(precision.relative * np.abs(center), max(one.step, one.noise))
    signs = [1.0, -1.0, *(random.choice((-1.0, 1.0), center.shape) for _ in range(MOVEMENTS - 3))]
    center = np.clip(center, -one.reach, one.reach)
    moved = [_rounded(center, max(one.step, one.noise), precision), *(center + sign * noise for sign in signs)]
    return [array.astype(np.float32), *(each.astype(np.float32) for each in moved)]


def _moved_further(found: list[Array], precision: Precision) -> list[Array]:
    """A value that nobody else names: what its operands' movements made of it, moved by its own rounding too.

    A saturated tanh is 1 or the number below, whatever its operand, and a cast to integers makes 1 or 0 of that.
    """
    if found[0].dtype.kind != "f" or _is_exact(found[0], precision):
        return found
    signs = [0.0, 0.0, *(1.0 if turn % 2 else -1.0 for turn in range(2, len(found)))]
    return [one + sign * precision.relative * np.abs(one) for one, sign in zip(found, signs, strict=True)]


def _rounded(array: Array, noise: float, precision: Precision) -> Array:
    """As integers or short floats hold it, which makes equal what was next to equal."""
    if noise:
        return np.rint(array / (2 * noise)) * (2 * noise)
    if not precision.relative:
        return array
    fraction, exponent = np.frexp(array)
    return np.ldexp(np.rint(fraction / precision.relative) * precision.relative, exponent)


def _compared(
    operation: Operation, value: Value, one: Known, results: Sequence[Array], precision: Precision
) -> Deviation:
    wanted = np.clip(results[0].astype(np.float64), one.low, one.high)
    found = np.asarray(one.array, np.float64)
    if found.size != wanted.size:
        return Deviation(operation, value, np.inf, np.inf, 0.0)
    found = found.reshape(wanted.shape)
    if not np.array_equal(np.isfinite(found), np.isfinite(wanted)):
        return Deviation(operation, value, np.inf, np.inf, 0.0)
    if not found.size:
        return Deviation(operation, value, 0.0, 0.0, 0.0)
    moved = [np.nan_to_num(np.clip(result.astype(np.float64), one.low, one.high)) for result in results[1:]]
    spread = np.max([np.abs(result.reshape(wanted.shape) - wanted) for result in moved], axis=0)
    typical = float(np.sqrt(np.mean(np.minimum(spread, np.median(spread) * 4) ** 2)))
    exact = not one.step and _is_exact(found, precision) and _is_exact(wanted, precision)
    rounding = (
        0.0 if exact else precision.steps * 2 * one.step + precision.share * max(float(np.abs(wanted).max()), SMALLEST)
    )
    allowed = np.maximum(spread, typical) * 2 + rounding
    error = np.nan_to_num(np.abs(found - wanted))
    ratios = np.divide(error, allowed, out=np.where(error > 0, np.inf, 0.0), where=allowed > 0)
    worst = int(np.argmax(ratios))
    return Deviation(operation, value, float(ratios.flat[worst]), float(error.flat[worst]), float(allowed.flat[worst]))


def _is_exact(array: Array, precision: Precision) -> bool:
    """Whole numbers that no rounding changes: short floats hold nothing else from some size on."""
    largest = float(np.abs(array).max(initial=0.0))
    return bool(np.array_equal(array, np.rint(array))) and not largest * precision.relative >= 0.5
