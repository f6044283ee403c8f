"""Constant tensors of a module, by name: an npz file read on first use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tpuc.errors import InvalidModel
from tpuc.ir.dtypes import as_stored
from tpuc.ir.types import TensorType, Type
from tpuc.npz import read_names, read_npz, write_npz

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]


class Weights:
    """A mapping from weight name to array. Never change an array in place; add a new one under a new name.

    Names and new arrays are available without the file; it is read when the first of its own arrays is requested.
    """

    def __init__(self, path: Path | None = None, types: Sequence[tuple[str, Type]] = ()) -> None:
        """`types` are the module's declared types of the arrays in the file; arrays of other shapes are refused."""
        self._path = path
        self._types = types
        self._unread = path is not None
        self._arrays: dict[str, Array] = {}  # while the file is unread, those that were set since
        self._in_file: frozenset[str] | None = None  # the names there, once they are known
        self._kept: frozenset[str] | None = None  # what to keep of the file when it is read

    def _loaded(self) -> dict[str, Array]:
        if self._unread:
            assert self._path is not None
            arrays = read_npz(self._path)
            arrays = self._fitted(self._path, arrays)
            own = {name: array for name, array in arrays.items() if self._kept is None or name in self._kept}
            self._arrays = own | self._arrays
            self._unread, self._kept = False, None
        return self._arrays

    def _fitted(self, path: Path, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """The arrays of the file, in the declared shapes: files of TPU-MLIR omit extents of 1 and store integer filters
        as one row.
        """
        fitted = dict(arrays)
        for name, type in self._types:
            if not isinstance(type, TensorType) or name not in arrays:
                continue
            array = arrays[name]
            if type.shape is not None and _holds(array.shape, type.shape):
                fitted[name] = array = array.reshape(type.shape)
            try:
                as_stored(array, type)
            except ValueError as error:
                raise InvalidModel(
                    f"{path}: weight '{name}': {error}; the npz does not belong to this module, write both again "
                    "together"
                ) from None
        return fitted

    @property
    def is_loaded(self) -> bool:
        """True if the arrays are in memory, False while they are only in the file."""
        return not self._unread

    @property
    def missing(self) -> Path | None:
        """The file, if it does not exist, was never read, and no array has been added."""
        return self._path if self._unread and self._path and not self._arrays and not self._path.exists() else None

    def __getitem__(self, name: str) -> Array:
        if name in self._arrays:
            return self._arrays[name]
        try:
            return self._loaded()[name]
        except KeyError:
            where = f" in {self._path}" if self._path else ""
            if not name:
                raise InvalidModel(
                    f"a weight has no name, so its array cannot be found{where}: write the module with its locations, "
                    'or with an attribute name = "..." per weight'
                ) from None
            raise InvalidModel(
                f"weight '{name}' is missing{where}: the npz does not belong to this module; write both again together"
            ) from None

    def __setitem__(self, name: str, array: Array) -> None:
        self._arrays[name] = array

    def __contains__(self, name: str) -> bool:
        return name in self._arrays or (self._unread and name in self.names())

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def names(self) -> set[str]:
        """All names, without reading an array; those of a missing file are unknown."""
        if not self._unread:
            return set(self._arrays)
        if self._in_file is None:
            assert self._path is not None
            self._in_file = frozenset(read_names(self._path) if self._path.exists() else ())
        return {*self._arrays, *(self._in_file if self._kept is None else self._in_file & self._kept)}

    def copy(self) -> Weights:
        """A new mapping over the same arrays."""
        result = Weights(self._path, self._types)
        result._unread, result._arrays, result._kept = self._unread, dict(self._arrays), self._kept
        return result

    def keep_only(self, names: set[str]) -> None:
        """Drop every array that is not in `names`; an unread file stays unread."""
        self._arrays = {name: array for name, array in self._arrays.items() if name in names}
        if self._unread:
            self._kept = frozenset(names) if self._kept is None else self._kept & names

    def save(self, path: Path) -> None:
        """Write the npz atomically: names sorted, no time stamps."""
        write_npz(path, self._loaded())


def _holds(shape: tuple[int, ...], stated: tuple[int, ...]) -> bool:
    """True if an array of that shape holds the elements in the order of the declared one."""
    is_row = len(shape) == 1 and shape[0] == math.prod(stated)
    return is_row or [extent for extent in shape if extent != 1] == [extent for extent in stated if extent != 1]
