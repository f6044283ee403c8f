"""Accept inputs from Python programs: one array, arrays by name, or a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
from tpuc.errors import CalibrationError, UsageError
from tpuc.registry import Registry

from tpuc_driver.data import SampleInput, open_samples, rows_in

Array: TypeAlias = npt.NDArray[Any]
Given: TypeAlias = "npt.ArrayLike | Mapping[str, npt.ArrayLike] | str | os.PathLike[str]"
"""An array for the only input, arrays by the names of inputs, or a file or folder of samples."""


def is_path(given: object) -> bool:
    """Is it the name of a file or folder?"""
    return isinstance(given, str | os.PathLike)


def as_path(given: object) -> Path:
    """A given file or folder."""
    return Path(cast("str | os.PathLike[str]", given))


def samples_of(specs: Sequence[SampleInput], given: Given, registry: Registry) -> Iterable[Mapping[str, Array]]:
    """The samples in what was given; several stand behind a leading axis."""
    if is_path(given):
        return open_samples(specs, as_path(given), registry=registry)
    arrays = named_arrays(specs, given)
    rows = {one.name: rows_in(one, arrays[one.name], Path(f"array '{one.name}'")) for one in specs}
    counts = {name: len(found) for name, found in rows.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        raise CalibrationError(f"the arrays hold different numbers of samples: {listed}. Make them equal.")
    return [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def named_arrays(specs: Sequence[SampleInput], given: Given) -> dict[str, Array]:
    """The arrays by the names of all inputs; raises UsageError for a name that is none, and for one that is missing."""
    names = [one.name for one in specs]
    if not isinstance(given, Mapping):
        if len(names) != 1:
            raise UsageError(f"one array for {len(names)} inputs; give a mapping with {_listed(specs)}.")
        return {names[0]: np.asarray(given)}
    arrays = {name: np.asarray(value) for name, value in given.items()}
    for name in arrays:
        if name not in names:
            close = get_close_matches(str(name), names, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise UsageError(f"no input named '{name}'.{hint} The network takes {_listed(specs)}.")
    missing = [one for one in specs if one.name not in arrays]
    if missing:
        raise UsageError(f"nothing is given for {_listed(missing)}; give an array for each input.")
    return arrays


def _listed(specs: Sequence[SampleInput]) -> str:
    return ", ".join(f"'{one.name}' {'x'.join(map(str, one.shape))}" for one in specs)
