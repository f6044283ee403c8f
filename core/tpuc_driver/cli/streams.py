"""Standard streams: escape control characters, and stop printing once the reader has gone."""

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
"""As shells report the end by a signal: 128 and its number, 13 for SIGPIPE."""


class NobodyReads(Exception):
    """Whoever read our output has ended: `tpuc matrix | head -1`."""


def fill_descriptors() -> None:
    """Open what is closed of stdin, stdout and stderr: a file opened later would take its place and be printed into."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != descriptor:  # another one below it is closed in the meantime; leave it
                os.close(opened)


class Shown(io.TextIOBase):
    """A stream of text in which control characters are escapes, so that a name does nothing to a terminal.

    `raw` is the stream behind it; None where the process was started without one. Printing `is_lost` then.
    """

    def __init__(self, raw: TextIO | None) -> None:
        super().__init__()
        self.raw = raw
        self.is_lost = False

    @property
    def encoding(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of what is written; the stream behind may have another."""
        return "utf-8"

    @property
    def errors(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """There are none."""
        return "backslashreplace"

    @property
    def buffer(self) -> BinaryIO | None:
        """For bytes: completions of a shell."""
        return getattr(self.raw, "buffer", None)

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Does somebody look at it?"""
        return self.raw is not None and self.raw.isatty()

    def fileno(self) -> int:
        """That of the stream behind."""
        if self.raw is None:
            raise io.UnsupportedOperation("fileno")
        return self.raw.fileno()

    def write(self, text: str) -> int:
        """Print it, with escapes for what would act on a terminal and for what the stream's encoding does not have."""
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance] # click finds out so what it has
            raise TypeError("text is written here, no bytes")
        if text:
            shown = harmless(text)
            encoding = getattr(self.raw, "encoding", None) or "utf-8"
            if not shown.isascii():
                shown = shown.encode(encoding, errors="backslashreplace").decode(encoding)
            self._put(shown)
        return len(text)

    def write_styled(self, text: str) -> None:
        """Print text of ours as it is, with its colors; names in it have been made visible."""
        encoding = getattr(self.raw, "encoding", None) or "utf-8"
        self._put(text.encode(encoding, errors="replace").decode(encoding))

    def flush(self) -> None:
        """Hand on what was written."""
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
    """As `Shown`, and what cannot be written is left away: work goes on without remarks."""

    def _put(self, text: str) -> None:
        try:
            super()._put(text)
        except (NobodyReads, OSError):
            self.raw = None


@contextmanager
def shown_streams() -> Generator[Shown]:
    """Let everything that is printed meanwhile be shown so; gives stdout."""
    before = sys.stdout, sys.stderr
    shown = Shown(before[0])
    sys.stdout, sys.stderr = shown, Remarks(before[1])
    try:
        yield shown
    finally:
        sys.stdout, sys.stderr = before


def give_up_stdout() -> None:
    """Let the interpreter's last flush go nowhere when stdout itself is broken (a full disk behind `>`)."""
    raw = sys.stdout.raw if isinstance(sys.stdout, Shown) else sys.stdout
    try:
        if raw is not None:
            raw.flush()
    except OSError:
        _give_up(raw)


def _give_up(raw: TextIO | None) -> None:
    """Let a stream's descriptor lead nowhere; what is buffered is written at the end of the process."""
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
