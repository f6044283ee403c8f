"""Constant tensors of a module, by name: an npz that is read when first needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tpuc.errors import InvalidModel
from tpuc.ir.dtypes import as_stored
from tpuc.ir.types import TensorType, Type
from tpuc.npz import read_npz, write_npz

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]


class Weights:
    """A mapping from weight name to array. Arrays are never changed in place: set a new one under a new name."""

    def __init__(self, path: Path | None = None, types: Sequence[tuple[str, Type]] = ()) -> None:
        """`types` are what a module says of the arrays in the file; arrays of other shapes are refused."""
        self._path = path
        self._types = types
        self._arrays: dict[str, Array] | None = None if path else {}
        self._kept: frozenset[str] | None = None  # what to keep of the file when it is read

    def _loaded(self) -> dict[str, Array]:
        if self._arrays is None:
            assert self._path is not None
            arrays = read_npz(self._path)
            self._check(self._path, arrays)
            self._arrays = {name: arrays[name] for name in arrays if self._kept is None or name in self._kept}
            self._kept = None
        return self._arrays

    def _check(self, path: Path, arrays: Mapping[str, Array]) -> None:
        for name, type in self._types:
            if isinstance(type, TensorType) and name in arrays:
                try:
                    as_stored(arrays[name], type)
                except ValueError as error:
                    raise InvalidModel(
                        f"{path}: weight '{name}': {error}; the npz does not belong to this module, write both again "
                        "together"
                    ) from None

    @property
    def is_loaded(self) -> bool:
        """Are the arrays in memory, rather than in a file that nobody has needed yet?"""
        return self._arrays is not None

    def __getitem__(self, name: str) -> Array:
        try:
            return self._loaded()[name]
        except KeyError:
            where = f" in {self._path}" if self._path else ""
            raise InvalidModel(
                f"weight '{name}' is missing{where}: the npz does not belong to this module; write both again together"
            ) from None

    def __setitem__(self, name: str, array: Array) -> None:
        self._loaded()[name] = array

    def __contains__(self, name: str) -> bool:
        return name in self._loaded()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded())

    def __len__(self) -> int:
        return len(self._loaded())

    def copy(self) -> Weights:
        """A new mapping over the same arrays."""
        result = Weights(self._path, self._types)
        if self._arrays is not None:
            result._arrays = dict(self._arrays)
        result._kept = self._kept
        return result

    def keep_only(self, names: set[str]) -> None:
        """Forget every array that is not in `names`; a file that nobody has read yet stays unread."""
        self._kept = frozenset(names) if self._kept is None else self._kept & names
        if self._arrays is not None:
            self._arrays = {name: array for name, array in self._arrays.items() if name in names}
            self._kept = None

    def save(self, path: Path) -> None:
        """Write the npz: names sorted, no time stamps, through a temporary name."""
        write_npz(path, self._loaded())
