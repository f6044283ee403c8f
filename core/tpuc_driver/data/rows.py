"""Read single rows of arrays in .npy and .npz files, in constant memory."""

from __future__ import annotations

import weakref
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from tpuc.npy import read_array, read_header
from tpuc.npz import member_of, open_entry

Array = NDArray[Any]

BLOCK_BYTES = 1 << 22
"""Bytes of small rows that are read at once."""


@dataclass
class ArrayRows:
    """An array by rows of its first axis. `member` is its name in an .npz file, empty for an .npy file.

    Raises the exceptions of numpy and `zipfile` for unreadable files. Rows may be requested in any order; ascending is
    fastest, because compressed data can only be read forwards.
    """

    file: Path
    member: str = ""
    shape: tuple[int, ...] = field(init=False)
    _dtype: np.dtype[Any] = field(init=False)
    _begin: int = field(init=False)
    _whole: Array | None = field(init=False, default=None)
    _archive: tuple[zipfile.ZipFile, IO[bytes]] | None = field(init=False, default=None)
    _first: int = 0
    _block: Array | None = None

    def __post_init__(self) -> None:
        if self.member:
            archive = zipfile.ZipFile(self.file)
            self._archive = archive, open_entry(archive, member_of(archive, self.member))
            weakref.finalize(self, _close, *self._archive)
            header = read_header(self._archive[1], archive.getinfo(member_of(archive, self.member)).file_size)
        else:
            with self.file.open("rb") as stream:
                header = read_header(stream, self.file.stat().st_size)
        self.shape, self._dtype, self._begin = header.shape, header.dtype, header.begin
        if header.by_columns or not self.shape:
            self._whole = self._load()

    def _load(self) -> Array:
        if not self.member:
            with self.file.open("rb") as stream:
                return read_array(stream, self.file.stat().st_size)
        with zipfile.ZipFile(self.file) as archive, open_entry(archive, member_of(archive, self.member)) as stream:
            return read_array(stream, archive.getinfo(member_of(archive, self.member)).file_size)

    def whole(self) -> Array:
        """All rows."""
        if self._whole is None:
            self._whole = self._load()
        return self._whole

    def __getitem__(self, row: int) -> Array:
        count = self.shape[0] if self.shape else 0
        if not 0 <= row < count:
            raise ValueError(f"it has {count} rows, but no row {row}")
        if self._whole is not None:
            return self._whole[row]
        if self._block is None or not self._first <= row < self._first + len(self._block):
            self._first, self._block = self._read(row)
        return self._block[row - self._first]

    def _read(self, row: int) -> tuple[int, Array]:
        """The block that contains a row, and its first row."""
        row_bytes = self._dtype.itemsize * int(np.prod(self.shape[1:]))
        most = max(BLOCK_BYTES // max(row_bytes, 1), 1)
        first = row // most * most
        count = min(most, self.shape[0] - first)
        size, place = count * row_bytes, self._begin + first * row_bytes
        if self._archive is not None:
            data = _take(self._archive[1], place, size)
        else:
            with self.file.open("rb") as stream:
                data = _take(stream, place, size)
        return first, np.frombuffer(data, self._dtype).reshape(count, *self.shape[1:])


def _take(stream: IO[bytes], place: int, size: int) -> bytes:
    stream.seek(place)
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("it ends within its data")
    return data


def _close(archive: zipfile.ZipFile, stream: IO[bytes]) -> None:
    stream.close()
    archive.close()
