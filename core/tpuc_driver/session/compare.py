"""Compare the stages of a compilation tensor by tensor."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from tpuc.errors import TpucError, UsageError
from tpuc.interpreter.values import real_values, types_of
from tpuc.ir import Module, Uniform
from tpuc.ir.channel_factors import stated_factors
from tpuc.ir.dtypes import holds_numbers
from tpuc.npz import read_npz

from tpuc_driver.data.stored import is_plain
from tpuc_driver.session.reports import StageComparison
from tpuc_driver.similarity import NothingToCompare, similarity

Array: TypeAlias = npt.NDArray[Any]

# Per kind of mode: least cosine and least Euclidean similarity (docs/spec).
TOLERANCES: Mapping[str, tuple[float, float]] = {"f32": (0.99, 0.99), "f16": (0.95, 0.85), "bf16": (0.95, 0.85)}
INTEGER_TOLERANCE = (0.9, 0.5)
SIMULATOR_TOLERANCE = (0.99, 0.9)
"""Tolerance between a compiled file and its TPU module."""

NEAR_ZERO = (1e-5, 1e-3)
"""Absolute and relative tolerance per element of an imported network, whatever the similarity: values close to zero are
mostly rounding error on both sides.
"""

ONE_STEP = 1.001
"""One step, with a margin for computing in float32."""

ENDLESS = 1e30
"""Magnitude from which numbers count as infinite: masks are filled with the lowest number of some type, and sums of
those lie anywhere near the end of the float32 range.
"""


def tolerance_of(mode: str, given: Sequence[float]) -> tuple[float, float]:
    """Return the given cosine and Euclidean tolerances, or the defaults for the mode. Raises UsageError or TpucError if
    two finite numbers are not given.
    """
    if len(given) == 2:
        if not all(map(math.isfinite, given)):
            numbers = ",".join(map(str, given))
            raise UsageError(f"--tolerance takes two finite numbers such as 0.9,0.7, not {numbers}.")
        return given[0], given[1]
    if given:
        raise TpucError(f"--tolerance takes two numbers, cosine and euclidean; {len(given)} were given")
    return TOLERANCES.get(mode, INTEGER_TOLERANCE)


def meanings(module: Module, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return the real values of a module's computed values, dequantized and in the scale of the original network."""
    types, factors = types_of(module), stated_factors(module)
    found = {name: real_values(array, types[name]) for name, array in values.items() if name in types}
    return {name: array * factors[name] if name in factors else array for name, array in found.items()}


def steps_of(module: Module, values: Mapping[str, Array]) -> dict[str, float]:
    """Return the scales of values stored as integers, and of floats that are merely their dequantized copies."""
    types = types_of(module)
    found = {name: type.element.scale for name, type in types.items() if isinstance(type.element, Uniform)}
    for operation in module.main.operations:
        if len(operation.operands) != 1 or len(operation.results) != 1:
            continue
        source, name = operation.operands[0].name, operation.result.name
        if source not in found or name in found or source not in values or name not in values:
            continue
        meant = real_values(values[source], types[source])
        if meant.size == values[name].size and np.array_equal(meant.astype(np.float32).ravel(), values[name].ravel()):
            found[name] = found[source]
    return found


def stated_values(path: Path, module: Module) -> dict[str, Array]:
    """Read an npz file of values of a module and dequantize them: integer arrays hold stored integers, float arrays
    real values. Raises UsageError for arrays that fit neither.
    """
    types = types_of(module)
    arrays = read_npz(path)
    for name, array in arrays.items():
        type = types.get(name)
        if type is not None and isinstance(type.element, Uniform) and not is_plain(type.element):
            _check_meaning(path, name, array, type.element)
            arrays[name] = real_values(array, type)
    return arrays


def _check_meaning(path: Path, name: str, array: Array, element: Uniform) -> None:
    low, high = element.bounds
    if not array.size or array.dtype.kind not in "iuf":
        return
    least, most = float(array.min()), float(array.max())
    if array.dtype.kind in "iu" and (least < low or most > high):
        raise UsageError(
            f"{path}: '{name}' holds integers from {least:.0f} to {most:.0f}, but is stored as {element.storage} "
            f"({low} to {high}). Give the stored integers, or the real values as floats."
        )
    bounds = [(bound - element.zero_point) * element.scale for bound in (low, high)]
    beyond = least < bounds[0] - element.scale or most > bounds[1] + element.scale
    if array.dtype.kind == "f" and beyond and low <= least and most <= high and (array == np.rint(array)).all():
        raise UsageError(
            f"{path}: '{name}' holds stored integers as {array.dtype.name}: its real values lie between "
            f"{bounds[0]:.6g} and {bounds[1]:.6g}. Give them as {element.storage}, or as (integer - "
            f"{element.zero_point}) * {element.scale:.9g}."
        )


def compare(
    stages: str,
    got: Mapping[str, Array],
    wanted: Mapping[str, Array],
    tolerance: tuple[float, float],
    excepts: Collection[str] = (),
    steps: Mapping[str, float] | None = None,
    near: tuple[float, float] | None = None,
) -> StageComparison:
    """Compare tensors of the same name. Raises TpucError below the tolerance, for NaN on either side, for infinities on
    one side, for different numbers of elements, or if no tensor is in common.

    `steps` are the scales of tensors stored as integers on both sides; these may differ by one step whatever the
    similarity, because sums in another order may round a tie differently. With `near`, a tensor also passes if each
    element is within an absolute tolerance (first number) plus a relative one (second number) of its reference.
    """
    worst: tuple[float, float, str] | None = None
    lowest_euclidean = float("inf")
    count = stored = close = 0
    fails = False
    for name, reference in wanted.items():
        if name not in got or name in excepts or not holds_numbers(reference.dtype):
            continue
        ours, theirs = _settled(got[name]), _settled(reference)
        fault = _fault(ours, theirs)
        if fault:
            raise TpucError(f"{stages}: '{name}' {fault}, or leave it out with --excepts")
        score = similarity(ours, theirs)
        count += 1
        if steps is not None and name in steps and np.abs(ours - theirs).max(initial=0) <= steps[name] * ONE_STEP:
            stored += 1
        elif score.cosine < tolerance[0] or score.euclidean < tolerance[1]:
            is_close = near is not None and np.isclose(ours, theirs, atol=near[0], rtol=near[1]).all()
            close += bool(is_close)
            fails |= not is_close
        lowest_euclidean = min(lowest_euclidean, score.euclidean)
        if worst is None or score.cosine < worst[0]:
            worst = (score.cosine, score.euclidean, name)
    if worst is None:
        raise NothingToCompare(f"{stages}: nothing to compare, because the two sides have no tensor name in common")
    result = StageComparison(stages, count, worst[0], lowest_euclidean, worst[2], stored, close, near)
    if fails:
        beside = f", and beyond {near[0]:g} + {near[1]:g} * |reference|" if near is not None else ""
        raise TpucError(
            f"{result.text()}: below the tolerance of {tolerance[0]}, {tolerance[1]}{beside}; examine that tensor "
            "first, or lower --tolerance; if it is quantized, add calibration samples or compute it in a float mode"
        )
    return result


def _settled(array: Array) -> Array:
    """Flatten the values; numbers beyond ENDLESS become infinite."""
    values = array.astype(np.float64).reshape(-1)
    return np.where(np.abs(values) >= ENDLESS, np.copysign(np.inf, values), values)


def _fault(got: Array, wanted: Array) -> str:
    """Return why a tensor fails regardless of the tolerance, with advice; empty if it does not."""
    if got.size != wanted.size:
        return f"has {wanted.size} and {got.size} elements; compare results of the same network on the same input"
    lost = int(np.count_nonzero(np.isnan(got) | np.isnan(wanted)))
    if lost:
        return f"is NaN in {lost} of {got.size} values, which no tolerance accepts; check the op that computes it"
    beyond = int(np.count_nonzero((np.isinf(got) | np.isinf(wanted)) & (got != wanted)))
    if beyond:
        return (
            f"is infinite on one side only in {beyond} of {got.size} values; keep the op that overflows in a wider "
            "float type (--quantize-table)"
        )
    return ""
