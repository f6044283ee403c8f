"""Record the digests of compiled files that this installation wrote, so that code in other files does not run unasked.

They are names of empty files in a folder of the user's own: `$XDG_STATE_HOME/tpuc/written`, else
`~/.local/state/tpuc/written`. Without a folder that can be used they are known to this process only.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path

MOST = 4096
"""Digests that are kept; the oldest go first."""
_OWN: set[str] = set()


def state_folder() -> Path | None:
    """Where digests are kept; None where the user has no home."""
    named = os.environ.get("XDG_STATE_HOME", "")
    try:
        base = Path(named) if Path(named).is_absolute() else Path.home() / ".local" / "state"
    except RuntimeError:  # no home
        return None
    return base / "tpuc" / "written"


def remember_written(data: bytes) -> None:
    """Note that this installation made a compiled file."""
    digest = hashlib.sha256(data).hexdigest()
    _OWN.add(digest)
    folder = state_folder()
    if folder is None:
        return
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / digest).touch(mode=0o600)
        _forget_oldest(folder)


def is_written_here(data: bytes) -> bool:
    """Did this user's installation make these bytes?"""
    digest = hashlib.sha256(data).hexdigest()
    if digest in _OWN:
        return True
    folder = state_folder()
    return folder is not None and _is_private(folder) and _is_private(folder / digest)


def _is_private(path: Path) -> bool:
    """Does a path belong to this user, and can nobody else write there?"""
    try:
        found = path.lstat()
    except OSError:
        return False
    if not hasattr(os, "geteuid"):
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _forget_oldest(folder: Path) -> None:
    names = list(folder.iterdir())
    if len(names) > MOST:
        for path in sorted(names, key=lambda path: path.stat().st_mtime)[: len(names) - MOST]:
            path.unlink(missing_ok=True)
