"""Standard streams: escape control characters, and stop when the reader has closed the pipe."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from tpuc.errors import harmless

BROKEN_PIPE = 141
"""The shell's convention for termination by a signal: 128 plus its number, 13 for SIGPIPE."""


class NobodyReads(Exception):
    """The reader of our output has exited, as in `tpuc matrix | head -1`."""


def fill_descriptors() -> None:
    """Open closed descriptors of stdin, stdout and stderr, since a file opened later would take their place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:  # another one below it is closed in the meantime; leave it
                os.close(opened)


class Shown(io.TextIOBase):
    """A text stream that escapes control characters, so that names cannot control the terminal.

    `raw` is the underlying stream; None where the process was started without one. Output then `is_lost`.
    """

    def __init__(self, raw: TextIO | None) -> None:
        super().__init__()
        self.raw = raw
        self.is_lost = False

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The encoding of the text; the underlying stream may have another."""
        return "utf-8"

    @property
    def errors(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Encoding errors are escaped, never raised."""
        return "backslashreplace"

    @property
    def buffer(self) -> BinaryIO | None:
        """The binary stream, for shell completions."""
        return getattr(self.raw, "buffer", None)

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """True for a terminal."""
        return self.raw is not None and self.raw.isatty()

    def fileno(self) -> int:
        """The descriptor of the underlying stream."""
        if self.raw is None:
            raise io.UnsupportedOperation("fileno")
        return self.raw.fileno()

    def write(self, text: str) -> int:
        """Write text; control characters and those that the encoding lacks are escaped."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] # click finds out so what it has
            raise TypeError("this stream takes text, not bytes")
        if text:
            shown = harmless(text)
            encoding = getattr(self.raw, "encoding", None) or "utf-8"
            if not shown.isascii():
                shown = shown.encode(encoding, errors="backslashreplace").decode(encoding)
            self._put(shown)
        return len(text)

    def write_styled(self, text: str) -> None:
        """Write our own text unchanged, with colors; names in it must already be escaped."""
        encoding = getattr(self.raw, "encoding", None) or "utf-8"
        self._put(text.encode(encoding, errors="replace").decode(encoding))

    def flush(self) -> None:
        """Flush the underlying stream."""
        self._put("")

    def _put(self, text: str) -> None:
        if self.raw is None:
            self.is_lost = self.is_lost or bool(text)
            return
        try:
            self.raw.write(text)
            self.raw.flush()
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EBADF):
                raise
            _give_up(self.raw)
            raise NobodyReads from error


class Remarks(Shown):
    """Like `Shown`, but write errors are ignored: work continues without remarks."""

    def _put(self, text: str) -> None:
        try:
            super()._put(text)
        except (NobodyReads, OSError):
            self.raw = None


@contextmanager
def shown_streams() -> Generator[Shown]:
    """Replace the standard streams inside the block; yields stdout."""
    before = sys.stdout, sys.stderr
    shown = Shown(before[0])
    sys.stdout, sys.stderr = shown, Remarks(before[1])
    try:
        yield shown
    finally:
        sys.stdout, sys.stderr = before


def give_up_stdout() -> None:
    """Discard the interpreter's last flush when stdout is broken (a full disk after `>`)."""
    raw = sys.stdout.raw if isinstance(sys.stdout, Shown) else sys.stdout
    try:
        if raw is not None:
            raw.flush()
    except OSError:
        _give_up(raw)


def _give_up(raw: TextIO | None) -> None:
    """Redirect a stream's descriptor to nowhere; buffered output is discarded at exit."""
    if raw is None:
        return
    try:
        descriptor = raw.fileno()
    except (OSError, ValueError):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    if nowhere != descriptor:
        os.close(nowhere)
