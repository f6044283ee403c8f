"""Operations on the arrays of npz files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray
from tpuc.api import TpucError, UsageError, listed
from tpuc.api.evaluation import read_npz

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]

_LARGEST_ROOT = 1e150
"""The square of a smaller number does not overflow."""


def load(path: Path) -> Arrays:
    """Return the numeric arrays of a file; raises UsageError if one is not numeric."""
    with path.open("rb"):  # the system's own words for what cannot be opened
        pass
    arrays = read_npz(path)
    for name, array in arrays.items():
        if array.dtype.kind not in "biuf":
            raise UsageError(f"{path}: array '{name}' holds {array.dtype}, not numbers; remove it.")
    return arrays


def named(arrays: Mapping[str, Array], name: str, path: Path) -> Array:
    """Return one array; raises UsageError that lists the existing names."""
    if name in arrays:
        return arrays[name]
    from difflib import get_close_matches

    close = get_close_matches(name, list(arrays), n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"there are {listed(name, list(arrays)) or 'none'}."
    raise UsageError(f"{path}: no array named '{name}'; {hint}")


def shape_text(array: Array) -> str:
    """Format a shape as `1x3x224x224`, or `scalar`."""
    return "x".join(map(str, array.shape)) or "scalar"


def extracted(arrays: Arrays, names: Sequence[str], path: Path) -> Arrays:
    """Return only these arrays."""
    return {name: named(arrays, name, path) for name in names}


def removed(arrays: Arrays, names: Sequence[str], path: Path) -> Arrays:
    """Return all arrays but these."""
    for name in names:
        named(arrays, name, path)
    return {name: array for name, array in arrays.items() if name not in names}


def merged(one: Arrays, other: Arrays, places: tuple[Path, Path]) -> Arrays:
    """Return the arrays of both; raises UsageError for arrays of one name that differ."""
    for name in one:
        if name in other and not same(one[name], other[name]):
            raise UsageError(
                f"{places[0]} and {places[1]}: array '{name}' is in both files with different values; rename or remove "
                "one of them."
            )
    return {**one, **other}


def same(one: Array, other: Array) -> bool:
    """True if type, shape, and every value are equal; NaN equals itself."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def renamed(arrays: Arrays, old: str, new: str, path: Path) -> Arrays:
    """Rename one array; raises UsageError if the name is in use."""
    array = named(arrays, old, path)
    if new in arrays and new != old:
        raise UsageError(f"{path}: an array named '{new}' already exists; remove it first.")
    return {(new if name == old else name): (array if name == old else value) for name, value in arrays.items()}


def reshaped(arrays: Arrays, name: str, shape: Sequence[int], path: Path) -> Arrays:
    """Reshape one array; one extent may be -1."""
    array = named(arrays, name, path)
    try:
        return {**arrays, name: array.reshape(tuple(shape))}
    except ValueError as error:
        wanted = "x".join(map(str, shape))
        raise UsageError(
            f"{path}: array '{name}' of shape {shape_text(array)} cannot become {wanted}; give a shape with the same "
            "number of elements."
        ) from error


def permuted(arrays: Arrays, name: str | None, order: Sequence[int], path: Path) -> Arrays:
    """Permute the axes of one array, or of all."""
    chosen = list(arrays) if name is None else [name]
    result = dict(arrays)
    for one in chosen:
        array = named(arrays, one, path)
        if sorted(order) != list(range(array.ndim)):
            raise UsageError(
                f"{path}: array '{one}' of shape {shape_text(array)} has {array.ndim} axes, and "
                f"{','.join(map(str, order))} is not a permutation of them; name the array, or give each axis once, "
                "from 0."
            )
        result[one] = np.ascontiguousarray(array.transpose(tuple(order)))
    return result


def to_float32(arrays: Arrays, stored: str) -> Arrays:
    """Convert arrays of 16-bit floats to float32, exactly; `stored` is bf16 or fp16. Raw 16-bit integers count as
    such.
    """
    floats: Any = ml_dtypes.bfloat16 if stored == "bf16" else np.float16
    kinds = ("uint16",) if stored == "bf16" else ("uint16", "float16")
    return {
        name: array.view(floats).astype(np.float32) if array.dtype.name in kinds else array
        for name, array in arrays.items()
    }


def from_float32(arrays: Arrays, stored: str) -> Arrays:
    """Round float32 arrays to 16-bit floats, ties to even; bf16 as raw integers.

    Raises UsageError for values that overflow.
    """
    floats: Any = ml_dtypes.bfloat16 if stored == "bf16" else np.float16
    result = dict(arrays)
    for name, array in arrays.items():
        if array.dtype != np.float32:
            continue
        with np.errstate(over="ignore"):
            less = array.astype(floats)
        lost = int((np.isfinite(array) & ~np.isfinite(less.astype(np.float32))).sum())
        if lost:
            raise UsageError(
                f"array '{name}': {lost} values are too large for {stored}; extract the other arrays first."
            )
        result[name] = less.view(np.uint16) if stored == "bf16" else less
    return result


def raw_bytes(array: Array, kind: str | None) -> bytes:
    """Return the values in order, little endian; as `kind` (int8, bf16, float32, ...) if given."""
    if kind is None:
        typed = array
    elif kind == "bf16":
        typed = array.astype(np.float32).astype(ml_dtypes.bfloat16).view(np.uint16)
    else:
        with np.errstate(invalid="ignore", over="ignore"):
            typed = array.astype(kind)
        if typed.dtype.kind in "iu" and not np.array_equal(typed, array):
            raise UsageError(f"the array is {array.dtype}, so it holds no {kind} values; leave out the type.")
    return typed.astype(typed.dtype.newbyteorder("<"), copy=False).tobytes()


def statistics(array: Array) -> dict[str, Any]:
    """Return statistics of the finite values."""
    finite = array[np.isfinite(array)].astype(np.float64) if array.dtype.kind == "f" else array.astype(np.float64)
    figures: dict[str, Any] = {"shape": list(array.shape), "dtype": str(array.dtype)}
    if finite.size:
        absmax = float(np.abs(finite).max())
        unit = absmax if absmax > _LARGEST_ROOT else 1.0  # squares stay within float64
        figures |= {
            "min": float(finite.min()),
            "max": float(finite.max()),
            "mean": float((finite / unit).mean()) * unit,
            "std": float((finite / unit).std()) * unit,
            "absmax": absmax,
        }
    return figures | {"zeros": int((array == 0).sum()), **not_finite(array)}


def not_finite(array: Array) -> dict[str, int]:
    """Return the numbers of NaN and infinite values."""
    if array.dtype.kind != "f":
        return {"nan": 0, "inf": 0}
    return {"nan": int(np.isnan(array).sum()), "inf": int(np.isinf(array).sum())}


def differences(one: Array, other: Array) -> list[tuple[tuple[int, ...], Any, Any]]:
    """Return position and both values of every element that differs, largest difference first."""
    if one.shape != other.shape:
        raise TpucError(f"shapes {shape_text(one)} and {shape_text(other)} differ; compare arrays of the same shape")
    unequal = one != other
    if one.dtype.kind == other.dtype.kind == "f":
        unequal &= ~(np.isnan(one) & np.isnan(other))
    places = np.argwhere(unequal)
    with np.errstate(invalid="ignore"):
        gaps = np.abs(one[unequal].astype(np.float64) - other[unequal].astype(np.float64))
    order = np.argsort(-np.nan_to_num(gaps, nan=np.inf), kind="stable")
    return [
        (tuple(int(axis) for axis in places[row]), one[tuple(places[row])].item(), other[tuple(places[row])].item())
        for row in order
    ]
