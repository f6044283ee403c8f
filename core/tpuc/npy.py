"""Arrays in numpy's format; headers are validated before memory is allocated."""

from __future__ import annotations

import ast
import math
import re
import struct
import threading
from dataclasses import dataclass
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 10_000
"""Longest accepted header in bytes, as in numpy."""
CHUNK_BYTES = 1 << 22
_KEYS = {"descr", "fortran_order", "shape"}
_TYPE = re.compile(r"[<>|=]?[A-Za-z?]\d{0,9}(\[\w{1,8}\])?")
_PYTHON_2_LONG = re.compile(r"(?<=\d)L\b")
_PARSING = threading.Lock()
"""Held while a header is parsed: `ast.literal_eval` of CPython 3.11 counts its depth for all threads together, and
raises SystemError when two of them are inside (github.com/python/cpython/issues/106905).
"""


@dataclass(frozen=True)
class Header:
    """The header of one array; its data start at byte `begin`."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]
    begin: int


def read_header(stream: IO[bytes], size: int) -> Header:
    """Read the header of an array in a stream of `size` bytes; the stream is positioned after it.

    Raises ValueError if it is not an array of plain values, or claims another size.
    """
    start = stream.read(len(MAGIC) + 2)
    if not start.startswith(MAGIC) or len(start) < len(MAGIC) + 2:
        raise ValueError("not an array in numpy's format")
    major = start[len(MAGIC)]
    if major not in (1, 2, 3):
        raise ValueError(f"numpy's format {major} is not known")
    field = "<H" if major == 1 else "<I"
    length_bytes = stream.read(struct.calcsize(field))
    if len(length_bytes) < struct.calcsize(field):
        raise ValueError("it ends within its header")
    length = int(struct.unpack(field, length_bytes)[0])
    if length > LONGEST_HEADER:
        raise ValueError(f"its header claims to be {length} bytes long")
    text = stream.read(length)
    if len(text) < length:
        raise ValueError("it ends within its header")
    begin = len(start) + len(length_bytes) + length
    header = _parsed(text.decode("utf-8" if major == 3 else "latin-1"), begin)
    claimed, there = math.prod(header.shape) * header.dtype.itemsize, size - begin
    if claimed != there:
        raise ValueError(f"its header claims {claimed} bytes of data, and there are {there}")
    return header


def read_array(stream: IO[bytes], size: int) -> NDArray[Any]:
    """Read the array in a stream of `size` bytes. Raises ValueError."""
    header = read_header(stream, size)
    flat = np.empty(math.prod(header.shape), header.dtype)
    view = flat.view(np.uint8)
    for place in range(0, len(view), CHUNK_BYTES):
        part = stream.read(min(CHUNK_BYTES, len(view) - place))
        if len(part) < min(CHUNK_BYTES, len(view) - place):
            raise ValueError("it ends within its data")
        view[place : place + len(part)] = np.frombuffer(part, np.uint8)
    if stream.read(1):  # an archive compares its check sum at the end
        raise ValueError("something follows its data")
    return flat.reshape(header.shape[::-1]).T if header.by_columns else flat.reshape(header.shape)


def _parsed(text: str, begin: int) -> Header:
    try:
        with _PARSING:
            parsed: Any = ast.literal_eval(_PYTHON_2_LONG.sub("", text).strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError("its header is damaged") from error
    found = cast("dict[Any, Any]", parsed) if isinstance(parsed, dict) else {}
    if set(found) != _KEYS:
        raise ValueError("its header is damaged")
    shape, by_columns, kind = found["shape"], found["fortran_order"], found["descr"]
    if not isinstance(by_columns, bool) or not isinstance(shape, tuple):
        raise ValueError("its header is damaged")
    extents = cast("tuple[Any, ...]", shape)
    if not all(type(extent) is int and 0 <= extent < 1 << 63 for extent in extents):
        raise ValueError("its header claims an impossible shape")
    return Header(extents, by_columns, _type_of(kind), begin)


def _type_of(kind: Any) -> np.dtype[Any]:
    if isinstance(kind, list):
        raise ValueError("it holds records, not plain values")
    if not isinstance(kind, str) or not _TYPE.fullmatch(kind):
        raise ValueError("its header claims an impossible type")
    try:
        dtype = np.dtype(kind)
    except (TypeError, ValueError) as error:
        raise ValueError(f"its header claims the impossible type {kind}") from error
    if dtype.hasobject:
        raise ValueError("it holds Python objects, not plain values")
    if not dtype.itemsize:
        raise ValueError("its header claims an impossible type")
    return dtype
