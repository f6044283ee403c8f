"""npz files: equal arrays give equal bytes, and a file is there whole or not at all."""

from __future__ import annotations

import threading
import zipfile
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from tpuc.errors import InvalidModel
from tpuc.files import reason, write_atomic

if TYPE_CHECKING:
    import numpy.typing as npt

    Array: TypeAlias = npt.NDArray[Any]

_NO_TIME = (1980, 1, 1, 0, 0, 0)
"""The earliest that the zip format can express."""
_UNIX = 3
"""The system that "made" a member (APPNOTE 4.4.2.2), else Python writes that of the machine."""
PARSING = threading.Lock()
"""Held while numpy parses a header: `ast.literal_eval` of CPython 3.11 counts its depth for all threads together, and
raises SystemError when two of them are inside (github.com/python/cpython/issues/106905).
"""


def write_npz(path: Path | str, arrays: Mapping[str, Array], *, compressed: bool = False) -> None:
    """Write arrays sorted by name, without time stamps. bfloat16 and 8-bit floats are stored as raw integers.

    Raises CannotWrite; nothing is left behind then.
    """

    def fill(stream: BinaryIO) -> None:
        with zipfile.ZipFile(stream, "w") as archive:
            for name in sorted(arrays):
                entry = zipfile.ZipInfo(f"{name}.npy", _NO_TIME)
                entry.create_system = _UNIX
                entry.external_attr = 0o644 << 16
                entry.compress_type = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
                archive.writestr(entry, _npy(arrays[name]))

    write_atomic(path, fill)


def read_npz(path: Path | str) -> dict[str, Array]:
    """The arrays of an npz by name, in the order of the file. Raises InvalidModel."""
    import numpy as np

    try:
        with Path(path).open("rb") as stream:
            with PARSING:
                loaded = np.load(stream, allow_pickle=False)
            if not isinstance(loaded, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array without name")
            with loaded, PARSING:
                return {name: loaded[name] for name in loaded.files}
    except FileNotFoundError:
        raise InvalidModel(f"{path}: there is no such npz; a weight file belongs beside its .mlir file") from None
    except OSError as error:
        raise InvalidModel(f"{path}: not a readable npz ({reason(error)}); write it again") from error
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        raise InvalidModel(f"{path}: not a readable npz ({error}); write it again") from error


def _npy(array: Array) -> bytes:
    import numpy as np

    array = np.asarray(array, order="C")
    if array.dtype.kind == "V" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        array = array.view(f"u{array.dtype.itemsize}")
    stream = BytesIO()
    np.lib.format.write_array(stream, array.astype(array.dtype.newbyteorder("<"), copy=False), allow_pickle=False)
    return stream.getvalue()
