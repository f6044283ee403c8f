"""Write output files completely or not at all."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import re
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import BinaryIO, TypeAlias

from tpuc.errors import FileError, TpucError

Content: TypeAlias = "bytes | bytearray | memoryview | str | Callable[[BinaryIO], object]"
"""What `write_atomic` writes: bytes, text (as UTF-8), or a function that writes to an open file."""

_WAYS_OUT = {
    errno.ENOSPC: "Free some space there or choose another place.",
    errno.EDQUOT: "Free some space there or choose another place.",
    errno.EACCES: "Choose a place that you may use.",
    errno.EPERM: "Choose a place that you may use.",
    errno.EROFS: "Choose a place that you may use.",
    errno.ENOENT: "Check the path.",
    errno.ENOTDIR: "Check the path.",
    errno.EISDIR: "Name a file inside it.",
}


_UNSAFE = re.compile(r'[/\\:*?"<>|\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]')
"""Characters that separate paths or end a name on some system, and those that cannot be shown."""
LONGEST_STEM = 100
"""Longest file name part made from a network's name, in bytes; systems allow 255 with prefix and suffix."""


class CannotWrite(FileError):
    """An output file that cannot be written; the message says which, why, and what to do."""


def way_out(error: OSError) -> str:
    """What the user can do about an error of the operating system."""
    return _WAYS_OUT.get(error.errno or 0, "Choose another place.")


def reason(error: OSError) -> str:
    """The operating system's own reason, without a full stop."""
    return (error.strerror or type(error).__name__).rstrip(".")


def file_stem(name: str) -> str:
    """A file name part made from the name of a module or a tensor: never a path, never hidden, never too long."""
    safe = _UNSAFE.sub("_", name).lstrip(".")
    return safe.encode("utf-8")[:LONGEST_STEM].decode("utf-8", errors="ignore") or "_"


def weights_beside(path: Path) -> str:
    """The name of the npz file written next to a `.mlir` file."""
    return f"{path.stem}_weight.npz"


def read_text(path: Path, kind: type[TpucError], instead: str) -> str:
    """Read a text file; raises an error of `kind` that says what to give `instead` when the file is not text."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise kind(f"{path}: cannot be read: {reason(error)}. {way_out(error)}") from error
    except UnicodeDecodeError as error:
        raise kind(f"{path}: is not a text file (byte {error.start}). {instead}") from error


def utf8(text: str) -> bytes:
    """Text as bytes; what is no UTF-8 in the name of a file stands as an escape (`\\udcff`), as JSON writes it."""
    return text.encode("utf-8", errors="backslashreplace")


def write_atomic(path: Path | str, content: Content) -> None:
    """Write a temporary file next to `path`, then rename it; on failure nothing new remains.

    A device or a pipe is written in place; the target of a symbolic link is replaced, not the link.
    """
    shown, target = Path(path), Path(path).resolve()
    check_writable(shown)
    if target.exists() and not target.is_file():
        with _explained(shown), target.open("wb") as stream:
            _fill(stream, content)
        return
    with _explained(shown):
        temporary, stream = _open_beside(target)
    try:
        with _explained(shown), stream:
            _fill(stream, content)
        with _explained(shown):
            temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_all(contents: Mapping[Path, Content]) -> None:
    """Write files that belong together: on failure all of them, and their folders, are restored.

    All are written under temporary names before the first is renamed.
    """
    folders: list[Path] = []
    parts: list[tuple[Path, Path]] = []
    try:
        for path, content in contents.items():
            with _explained(path):
                folders += _made_folders(path.parent)
            check_writable(path)
            if path.exists() and not path.is_file():
                write_atomic(path, content)  # a device or a pipe
                continue
            with _explained(path):
                part, stream = _open_beside(path.resolve())
                parts.append((part, path))
                with stream:
                    _fill(stream, content)
        for part, path in parts:
            with _explained(path):
                part.replace(path.resolve())
    except BaseException:
        for part, _ in parts:
            part.unlink(missing_ok=True)
        for folder in reversed(folders):
            with contextlib.suppress(OSError):  # somebody else has put something in
                folder.rmdir()
        raise


def _made_folders(folder: Path) -> list[Path]:
    """The folders that had to be created, the outermost first."""
    missing = list(itertools.takewhile(lambda one: not one.exists(), (folder, *folder.parents)))[::-1]
    for one in missing:
        one.mkdir()
    return missing


@contextlib.contextmanager
def undone_on_failure(path: Path | None) -> Generator[None]:
    """Context manager for a file that is updated while work runs. An error restores the former file, or its absence; an
    interruption keeps the new one, so that work can resume.
    """
    target = None if path is None else path.resolve()
    if target is None or (target.exists() and not target.is_file()):
        yield
        return
    before = target.read_bytes() if target.exists() else None
    try:
        yield
    except Exception:
        if before is None:
            target.unlink(missing_ok=True)
        elif target.read_bytes() != before:
            write_atomic(target, before)
        raise


def check_writable(path: Path | str) -> None:
    """Raise CannotWrite when a file cannot be created there, before a long run instead of after it."""
    path = Path(path)
    folder = path.parent
    if path.is_dir():
        raise CannotWrite(f"{path}: cannot be written: it is a folder. Name a file inside it.")
    if not folder.exists():
        raise CannotWrite(f"{path}: cannot be written: there is no folder '{folder}'. Create it first.")
    if not folder.is_dir():
        raise CannotWrite(f"{path}: cannot be written: '{folder}' is not a folder. Choose another place.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CannotWrite(f"{path}: cannot be written: permission denied. Choose a place that you may use.")


def _open_beside(target: Path) -> tuple[Path, BinaryIO]:
    """Open a new file with a unique name in the folder of `target`."""
    for number in itertools.count():
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{number}.part")
        try:
            return temporary, temporary.open("xb")
        except FileExistsError:
            continue
    raise AssertionError("count() ends never")


def _fill(stream: BinaryIO, content: Content) -> None:
    if isinstance(content, str):
        stream.write(utf8(content))
    elif isinstance(content, bytes | bytearray | memoryview):
        stream.write(content)
    else:
        content(stream)


@contextlib.contextmanager
def _explained(shown: Path) -> Generator[None]:
    """Context manager: turn the operating system's refusal to write `shown` into a sentence; other errors pass."""
    try:
        yield
    except OSError as error:
        if error.filename is not None and not _concerns(str(error.filename), shown):
            raise
        raise CannotWrite(f"{shown}: cannot be written: {reason(error)}. {way_out(error)}") from error


def _concerns(filename: str, shown: Path) -> bool:
    """True if the error is about `shown` or its temporary name."""
    target, named = shown.resolve(), Path(filename)
    return named.resolve() == target or (named.name.startswith(f".{target.name}.") and named.suffix == ".part")
