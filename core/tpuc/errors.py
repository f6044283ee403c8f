"""Errors that a user or a plugin author can cause; each message names the thing, the reason and the way out."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Self

_HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a cursor, reverses writing or ends a line on a terminal, or is no text; tabs and line breaks are fine."""


def visible(text: str) -> str:
    """Text in which line breaks, control characters and what reverses writing stand as escapes (`\\n`)."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def visible_lines(lines: Iterable[str]) -> str:
    """The given lines, with line breaks inside names escaped so that they cannot start a line of their own."""
    return "\n".join(map(visible, lines))


def harmless(text: str) -> str:
    """Text of several lines in which what would act on a terminal stands as escapes (`\\x1b`)."""
    return _HARMFUL.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def harmless_json(text: str) -> str:
    """Like `harmless`, with JSON's escapes."""
    return _HARMFUL.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


class TpucError(Exception):
    """Base of every error that is shown as one sentence; `exit_code` is what the command line returns."""

    exit_code = 1
    """Exit code of the process; 2, as for invalid command lines, where the network has no part in the error."""
    culprit: object | None = None
    """The object or class of the plugin that broke its contract, if any."""
    fault: str = ""
    """What the culprit did, as one clause."""

    def sentence(self) -> str:
        """The message on one line; line breaks inside names are escaped."""
        return visible(str(self))

    def blaming(self, culprit: object, fault: str) -> Self:
        """The same error, with the third-party plugin that is at fault, if any."""
        self.culprit, self.fault = culprit, fault
        return self


class UsageError(TpucError):
    """An error in the call or command line alone: an unknown option, chip, or mode that the chip does not have."""

    exit_code = 2


class InvalidModel(TpucError):
    """The network file or the module cannot be used: truncated, cyclic, wrong shapes, NaN weights."""


class Unsupported(TpucError):
    """An op, attribute, shape or mode that the front end or the chip cannot run."""


class ParseError(TpucError):
    """Text that is not a valid module; the message gives line and column."""


class VerifyError(TpucError):
    """A module that breaks an IR invariant."""


class CalibrationError(TpucError):
    """A calibration table or data set that is missing, corrupt or belongs to another network."""


class InvalidInput(TpucError):
    """Arrays or samples that do not fit the inputs of the network."""


class FileError(TpucError):
    """A file that the operating system does not let us read or write."""


class InputNotDescribed(TpucError):
    """A picture for an input without a preprocessing description."""


class LmemOverflow(TpucError):
    """No tile of the op fits the local memory."""


class CorruptFile(TpucError):
    """A compiled file that is truncated or holds illegal values."""


class HazardError(TpucError):
    """A command reads or overwrites data without waiting for the command that produces or reads it."""


class IllegalCommand(TpucError):
    """A command with illegal fields, alignment or addresses."""


class PluginError(TpucError):
    """A plugin that cannot be found, loaded or used."""

    exit_code = 2


class BrokenPromise(PluginError):
    """A plugin returned something that its base class does not allow; `culprit` is its object or class."""

    exit_code = 1

    def __init__(self, text: str, culprit: object) -> None:
        super().__init__(text)
        self.blaming(culprit, text)

    def __reduce__(self) -> tuple[type[BrokenPromise], tuple[str, None]]:
        """Pickle without the culprit, which other processes may not have."""
        return BrokenPromise, (str(self), None)


class PluginConflict(PluginError):
    """Two packages offer the same name or the same cell."""
