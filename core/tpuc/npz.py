"""npz files: equal arrays give equal bytes, and files are written completely or not at all."""

from __future__ import annotations

import lzma
import os
import re
import urllib.parse
import zipfile
import zlib
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, TypeAlias, TypeVar

from tpuc.errors import InvalidModel
from tpuc.files import reason, write_atomic

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

T = TypeVar("T")
_ENCRYPTED = 1
"""Flag of a member that needs a password (APPNOTE 4.4.4)."""
_NO_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest time that the zip format can express."""
_UNIX = 3
"""The creator system of a member (APPNOTE 4.4.2.2); Python would write that of the machine."""
ARCHIVE_ERRORS = (
    *(OSError, ValueError, EOFError, KeyError, NotImplementedError, OverflowError),
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError),
)
"""Exceptions of `zipfile` and its decoders for damaged archives."""
LEVEL = 1
"""Compression level: calibration counts take a fifth of the time of the default, and 1.15 times the bytes."""
_SUFFIX = ".npy"
MOST_UNPACKED, UNPACKED_PER_BYTE = 1 << 28, 64
"""Limit of unpacked bytes of an archive: the first number, or that many per packed byte, if that is more."""
_QUOTED = "percent-encoded:"
"""Prefix for names that would leave the folder where the archive is unpacked, or are not valid file names."""
_UNSAFE_ENTRY = re.compile(r"(^|/)\.\.?(/|$)|^/|^[A-Za-z]:|\\|[\x00-\x1f\x7f]|^" + re.escape(_QUOTED))


def entry_name(name: str) -> str:
    """The archive member for an array; its name cannot leave the folder when unpacked."""
    if _UNSAFE_ENTRY.search(name):
        name = _QUOTED + urllib.parse.quote(name, safe="")
    return f"{name}{_SUFFIX}"


def array_name(entry: str) -> str:
    """The name of the array in a member; raises ValueError if the member is not an array."""
    if not entry.endswith(_SUFFIX):
        raise ValueError(f"its member '{entry}' is not an array")
    name = entry.removesuffix(_SUFFIX)
    return urllib.parse.unquote(name.removeprefix(_QUOTED)) if name.startswith(_QUOTED) else name


def member_of(archive: zipfile.ZipFile, name: str) -> str:
    """The member that holds an array; numpy stores names unchanged."""
    entry = entry_name(name)
    return entry if entry in archive.NameToInfo else f"{name}{_SUFFIX}"


def open_entry(archive: zipfile.ZipFile, entry: str) -> IO[bytes]:
    """Open a member for reading; raises ARCHIVE_ERRORS."""
    if archive.getinfo(entry).flag_bits & _ENCRYPTED:
        raise zipfile.BadZipFile(f"member '{entry}' is encrypted")
    return archive.open(entry)


def write_npz(
    path: Path | str, arrays: Mapping[str, Array], *, compressed: bool = False, is_ordered: bool = False
) -> None:
    """Write arrays sorted by name, or in the given order, without time stamps. bfloat16 and 8-bit floats are stored as
    raw integers.

    Raises CannotWrite and leaves nothing behind.
    """

    def fill(stream: BinaryIO) -> None:
        with zipfile.ZipFile(stream, "w") as archive:
            for name in arrays if is_ordered else sorted(arrays):
                entry = zipfile.ZipInfo(entry_name(name), _NO_TIME)
                entry.create_system = _UNIX
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
                archive.writestr(entry, _npy(arrays[name]), compresslevel=LEVEL)

    write_atomic(path, fill)


def read_npz(path: Path | str) -> dict[str, Array]:
    """The arrays of an npz file by name, in file order. Raises InvalidModel."""
    return _read(path, _arrays_of)


def read_names(path: Path | str) -> set[str]:
    """The array names of an npz file. Raises InvalidModel."""
    return _read(path, _names_of)


def _read(path: Path | str, what: Callable[[BinaryIO], T]) -> T:
    from tpuc.npy import MAGIC

    try:
        with Path(path).open("rb") as stream:
            if stream.read(len(MAGIC)) == MAGIC:
                raise ValueError("it holds one array without name")
            return what(stream)
    except FileNotFoundError:
        raise InvalidModel(f"{path}: no such npz; the weight file belongs next to its .mlir file") from None
    except OSError as error:
        raise InvalidModel(f"{path}: not a readable npz ({reason(error)}); write it again") from error
    except ARCHIVE_ERRORS as error:
        raise InvalidModel(f"{path}: not a readable npz ({error}); write it again") from error


def _names_of(stream: BinaryIO) -> set[str]:
    with zipfile.ZipFile(stream) as archive:
        return {array_name(entry) for entry in archive.namelist()}


def _arrays_of(stream: BinaryIO) -> dict[str, Array]:
    from tpuc.npy import read_array

    arrays: dict[str, Array] = {}
    with zipfile.ZipFile(stream) as archive:
        size, packed = sum(info.file_size for info in archive.infolist()), stream.seek(0, os.SEEK_END)
        if size > max(MOST_UNPACKED, UNPACKED_PER_BYTE * packed):
            raise ValueError(f"its {packed:,} bytes would become {size:,}, which no array of a network does")
        for info in archive.infolist():
            name = array_name(info.filename)
            if name in arrays:
                raise ValueError(f"array '{name}' is there twice")
            with open_entry(archive, info.filename) as member:
                try:
                    arrays[name] = read_array(member, info.file_size)
                except ValueError as error:
                    raise ValueError(f"array '{name}': {error}") from error
    return arrays


def _npy(array: Array) -> bytes:
    import numpy as np

    array = np.asarray(array, order="C")
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        array = array.view(f"u{array.dtype.itemsize}")
    stream = BytesIO()
    np.lib.format.write_array(stream, array.astype(array.dtype.newbyteorder("<"), copy=False), allow_pickle=False)
    return stream.getvalue()
