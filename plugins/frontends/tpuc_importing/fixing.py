"""Replace inputs that the user fixes by constants, given as text, numbers, or files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import UsageError
from tpuc_ops.arrays import Array

FILLS = {"ones": 1, "zeros": 0}


def fixed_array(place: str, value: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the constant for an input of `shape` and `dtype` from `ones`, `zeros`, a number, comma-separated numbers,
    the path of an npy file, or an array. A single number fills the shape. Raises UsageError for a value that does
    not fit; `place` names the input in the message.
    """
    given = _given(place, value)
    if given.size == 1:
        given = np.broadcast_to(given.reshape(()), shape)
    elif given.size == int(np.prod(shape)) and given.ndim <= 1:
        given = given.reshape(shape)
    if given.shape != shape:
        raise UsageError(
            f"{place} has the shape {_show(shape)}, and the value that --fix-input gives it has {_show(given.shape)}. "
            "Give one number, or as many as the input has."
        )
    with np.errstate(all="ignore"):
        stored = given.astype(dtype)
    if not np.array_equal(stored.astype(np.float64), given.astype(np.float64), equal_nan=True) and dtype.kind != "f":
        raise UsageError(
            f"{place} holds {dtype}, but --fix-input gives it {given.reshape(-1)[0]}. Give numbers of this type."
        )
    return np.ascontiguousarray(stored)


def _given(place: str, value: Any) -> Array:
    if not isinstance(value, str):
        return np.asarray(value)
    text = value.strip()
    if text in FILLS:
        return np.asarray(FILLS[text])
    if text.endswith(".npy"):
        return _read(place, Path(text))
    words = {"true": 1, "false": 0}
    try:
        parts = [part.strip() for part in text.removeprefix("[").removesuffix("]").split(",")]
        return np.asarray([words[part.lower()] if part.lower() in words else _number(part) for part in parts])
    except ValueError:
        raise UsageError(
            f"{place}: --fix-input gives {text!r}, which is not a value. Give a number, numbers between commas, ones, "
            "zeros, or an npy file."
        ) from None


def _number(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def _read(place: str, path: Path) -> Array:
    found: Any = None
    try:
        found = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise UsageError(f"{place}: {path} is not an npy file that can be read ({type(error).__name__}).") from error
    if isinstance(found, np.lib.npyio.NpzFile):
        raise UsageError(f"{place}: {path} holds several arrays. Give an npy file.")
    return np.asarray(found)


def _show(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "scalar"
