"""Convert inputs from Python programs: one array, arrays by name, an iterable of samples, or a file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from tpuc.errors import CalibrationError, InvalidInput, UsageError
from tpuc.registry import Registry

from tpuc_driver.data import SampleInput, count_in, open_samples, rows_in

Array: TypeAlias = npt.NDArray[Any]
Given: TypeAlias = "npt.ArrayLike | Mapping[str, Any] | str | os.PathLike[str] | Iterable[Any]"
"""An array for the only input, arrays by input name, a file or folder of samples, or an iterable of samples.

Tensors of other libraries are arrays. Each item of an iterable (a generator, a `torch` `DataLoader`) is an array,
arrays by name, or a tuple that starts with the inputs in order; further elements, such as labels, are ignored.
"""


def is_path(given: object) -> bool:
    """True for the name of a file or folder."""
    return isinstance(given, str | os.PathLike)


def as_path(given: object) -> Path:
    """The path of a given file or folder."""
    return Path(cast("str | os.PathLike[str]", given))


def existing(given: object) -> Path:
    """The path of an existing file or folder of samples; raises CalibrationError if it does not exist."""
    path = as_path(given)
    if not path.exists():
        raise CalibrationError(f"{path}: no such file or folder of samples.")
    return path


def as_array(given: object, name: str) -> Array:
    """Convert to an array, called `name` in errors; raises InvalidInput if that is impossible."""
    detach = getattr(given, "detach", None)
    try:
        array = np.asarray(given if detach is None else detach().cpu())
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidInput(f"{name} is not an array ({reason}); give numbers of one shape.") from error
    if array.dtype.kind == "V" and array.dtype.names is None:  # narrow floats, of which numpy knows the bytes alone
        array = array.astype(np.float32)
    if array.dtype.kind not in "biuf":
        raise InvalidInput(f"{name} holds {type(given).__name__}, not numbers; give an array of numbers.")
    return array


def is_iterable_of_samples(given: object) -> bool:
    """True for an iterable that yields samples."""
    if is_path(given) or isinstance(given, Mapping) or _is_array(given) or not isinstance(given, Iterable):
        return False
    if not isinstance(given, list | tuple):
        return True
    items = cast("Sequence[Any]", given)
    shapes = {np.shape(item) for item in items if _is_array(item)}
    return len(shapes) > 1 or any(isinstance(item, Mapping) or _holds_arrays(item) for item in items)


def _is_array(given: object) -> bool:
    return hasattr(given, "__array__")


def _holds_arrays(item: object) -> bool:
    return isinstance(item, list | tuple) and any(map(_is_array, cast("Sequence[Any]", item)))


def items_of(specs: Sequence[SampleInput], given: Iterable[Any]) -> Iterator[tuple[str, dict[str, Array]]]:
    """The items of an iterable, each taken once, on demand: its name in errors, and arrays by name."""
    for number, item in enumerate(given, 1):
        name = f"item {number} of the samples"
        yield name, _item(specs, item, name)


def _item(specs: Sequence[SampleInput], item: Any, name: str) -> dict[str, Array]:
    if isinstance(item, Mapping):
        known = {one.name for one in specs}
        by_name = cast("Mapping[Any, Any]", item)
        chosen = {key: value for key, value in by_name.items() if key in known} if known <= by_name.keys() else by_name
        return named_arrays(specs, chosen)
    if not _holds_arrays(item):
        return named_arrays(specs, item, name)
    parts = cast("Sequence[Any]", item)
    if len(parts) < len(specs):
        raise InvalidInput(f"{name} has {len(parts)} arrays for {len(specs)} inputs; give {_listed(specs)}.")
    return {one.name: as_array(part, name) for one, part in zip(specs, parts, strict=False)}


def check_counts(specs: Sequence[SampleInput], arrays: Mapping[str, Array], name: str) -> int:
    """The number of samples in arrays; raises CalibrationError for unsuitable shapes or different numbers."""
    counts = {one.name: count_in(one, arrays[one.name].shape, _place(one, name), "shape") or 1 for one in specs}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise CalibrationError(f"the arrays hold different numbers of samples: {listed}. Make them equal.")
    return min(counts.values(), default=0)


def _place(one: SampleInput, name: str) -> Path:
    return Path(name or f"array '{one.name}'")


def samples_of(specs: Sequence[SampleInput], given: Given, registry: Registry) -> Iterator[Mapping[str, Array]]:
    """The given samples, one by one; an array with a leading axis contains several.

    Raises InvalidInput for arrays that do not fit the inputs, and for no samples.
    """
    try:
        found = _samples_of(specs, given, registry)
        first = next(found, None)
        if first is None:
            raise InvalidInput("there are no samples to run; give at least one.")
        yield from itertools.chain((first,), found)
    except CalibrationError as error:
        raise InvalidInput(str(error)) from error


def _samples_of(specs: Sequence[SampleInput], given: Given, registry: Registry) -> Iterator[Mapping[str, Array]]:
    if is_path(given):
        yield from open_samples(specs, existing(given), registry=registry)
        return
    if is_iterable_of_samples(given):
        for name, arrays in items_of(specs, cast("Iterable[Any]", given)):
            yield from _rows(specs, arrays, name)
        return
    yield from _rows(specs, named_arrays(specs, given), "")


def _rows(specs: Sequence[SampleInput], arrays: Mapping[str, Array], name: str) -> Iterator[Mapping[str, Array]]:
    check_counts(specs, arrays, name)
    rows = {one.name: rows_in(one, arrays[one.name], _place(one, name)) for one in specs}
    for row in zip(*rows.values(), strict=True):
        yield dict(zip(rows, row, strict=True))


def named_arrays(specs: Sequence[SampleInput], given: object, place: str = "the input") -> dict[str, Array]:
    """The arrays by input name; raises UsageError for unknown and missing names."""
    names = [one.name for one in specs]
    if not isinstance(given, Mapping):
        if len(names) != 1:
            raise UsageError(f"one array for {len(names)} inputs; give a mapping with {_listed(specs)}.")
        return {names[0]: as_array(given, place)}
    by_name = cast("Mapping[Any, Any]", given)
    for name in by_name:
        if name not in names:
            close = get_close_matches(str(name), names, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise UsageError(f"no input named '{name}'.{hint} The network takes {_listed(specs)}.")
    missing = [one for one in specs if one.name not in by_name]
    if missing:
        raise UsageError(f"no array for {_listed(missing)}; give one for each input.")
    return {str(name): as_array(value, f"array '{name}'") for name, value in by_name.items()}


def _listed(specs: Sequence[SampleInput]) -> str:
    return ", ".join(f"'{one.name}' {'x'.join(map(str, one.shape))}" for one in specs)
