"""Read network files."""

from __future__ import annotations

from pathlib import Path

from tpuc.api import InvalidModel


def read_bytes(path: Path) -> bytes:
    """Return the content of a file; raises InvalidModel if it cannot be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise InvalidModel(f"{path}: there is no such file. Check the path.") from None
    except OSError as error:
        raise InvalidModel(f"{path}: cannot be read: {error.strerror}. Check the path and its permissions.") from error
