"""A cursor over MLIR text: white space, punctuation, names, strings, and errors with positions."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NoReturn

from tpuc.errors import ParseError

_SPACE = re.compile(r"(?:[ \t\r\n]++|//[^\n]*+)*+")
_SPACE_STARTS = frozenset(" \t\r\n/")
_NAME = re.compile(r"[A-Za-z_][\w$.]*+")
_WORD_END = re.compile(r"(?![\w$.])")
_INTEGER = re.compile(r"-?(?:0x[0-9A-Fa-f]++|\d++)")
_STRING = re.compile(r'"((?:[^"\\\n]++|\\.)*+)"')
_ESCAPE = re.compile(rb'\\([0-9A-Fa-f]{2}|[nt"\\])')
_SHOWN = re.compile(r'"(?:[^"\\\n]++|\\.)*+"?|[%#@!^]?[\w$.:-]++|->|.', re.DOTALL)
_SIMPLE_ESCAPES = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\"}
_BARE_NAME = re.compile(r"[A-Za-z_][\w$.]*")


class Scanner:
    """The text and the current position."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.pos = 0
        self._line_starts: list[int] | None = None

    def skip(self) -> int:
        """Step over white space and comments; returns the new position."""
        if self.text[self.pos : self.pos + 1] in _SPACE_STARTS:
            match = _SPACE.match(self.text, self.pos)
            assert match is not None
            self.pos = match.end()
        return self.pos

    def sees(self, literal: str) -> bool:
        """True if `literal` comes next."""
        return self.text.startswith(literal, self.skip())

    def accept(self, literal: str) -> bool:
        """Step over punctuation if it comes next."""
        if self.text.startswith(literal, self.pos) or self.text.startswith(literal, self.skip()):
            self.pos += len(literal)
            return True
        return False

    def accept_word(self, word: str) -> bool:
        """Step over a whole word if it comes next."""
        if self.text.startswith(word, self.skip()) and _WORD_END.match(self.text, self.pos + len(word)):
            self.pos += len(word)
            return True
        return False

    def expect(self, literal: str, where: str = "") -> None:
        """Step over punctuation that must come next."""
        if not self.accept(literal):
            self.fail(f"expected '{literal}'{where}, found {self.shown()}")

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Step over `pattern` if it comes next."""
        match = pattern.match(self.text, self.skip())
        if match is not None:
            self.pos = match.end()
        return match

    def name(self, what: str) -> str:
        """A bare name that must come next."""
        match = self.take(_NAME)
        return match.group() if match else self.fail(f"expected {what}, found {self.shown()}")

    def integer(self, what: str) -> int:
        """An integer that must come next."""
        match = self.take(_INTEGER)
        return int(match.group(), 0) if match else self.fail(f"expected {what}, found {self.shown()}")

    def string(self, what: str) -> str:
        """A quoted string that must come next."""
        match = self.take(_STRING)
        return unescape(match.group(1)) if match else self.fail(f"expected {what} in quotes, found {self.shown()}")

    def balanced(self, what: str) -> str:
        """The text from a `<` to the matching `>`, unchanged; brackets nest, strings and `->` are skipped."""
        start = self.pos
        depth = 0
        text = self.text
        while self.pos < len(text):
            match text[self.pos]:
                case '"':
                    if self.take(_STRING) is None:
                        self.fail("this string has no end; add the closing quote")
                    continue
                case "<" | "(" | "[" | "{":
                    depth += 1
                case "-" if text.startswith("->", self.pos):
                    self.pos += 1
                case ">" | ")" | "]" | "}":
                    depth -= 1
                case _:
                    pass
            self.pos += 1
            if depth == 0:
                return text[start : self.pos]
        return self.fail(f"{what} has no end; a bracket is not closed", start)

    def shown(self) -> str:
        """The text at the current position, for an error."""
        match = _SHOWN.match(self.text, self.skip())
        return f"'{match.group()[:40]}'" if match else "the end of the text"

    def fail(self, message: str, pos: int | None = None) -> NoReturn:
        """Raise the error for `pos`, by default the current position."""
        raise ParseError(f"{self.place(self.pos if pos is None else pos)}: {message}")

    def place(self, pos: int) -> str:
        """`file:line:column` of a position."""
        if self._line_starts is None:
            self._line_starts = [0, *(match.end() for match in re.finditer("\n", self.text))]
        line = bisect_right(self._line_starts, pos)
        return f"{self.source}:{line}:{pos - self._line_starts[line - 1] + 1}"


def unescape(text: str) -> str:
    """The text inside a quoted string; two hexadecimal digits are one UTF-8 byte."""
    if "\\" not in text:
        return text

    def meaning(match: re.Match[bytes]) -> bytes:
        code = match.group(1)
        return _SIMPLE_ESCAPES.get(code) or bytes([int(code, 16)])

    return _ESCAPE.sub(meaning, text.encode("utf-8", "surrogateescape")).decode("utf-8", "surrogateescape")


def quote(text: str) -> str:
    """A quoted string, escaped as in LLVM: everything outside printable ASCII as hexadecimal bytes."""
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    escaped = [
        "\\\\" if byte == 0x5C else chr(byte) if 0x20 <= byte < 0x7F and byte != 0x22 else f"\\{byte:02X}"
        for byte in text.encode("utf-8", "surrogateescape")
    ]
    return f'"{"".join(escaped)}"'


def name_or_quoted(name: str) -> str:
    """A name as printed in a dictionary or after `@`: without quotes where possible."""
    return name if _BARE_NAME.fullmatch(name) else quote(name)
