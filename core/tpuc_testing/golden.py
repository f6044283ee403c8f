"""Golden texts: files that say how to run themselves and what their output must hold.

`RUN: tpuc opt %s --pass fuse-relu` runs the command line in this process, `%s` being the file, `%S` its folder and `%t`
the beginning of paths for files that are removed afterwards; `RUN: not tpuc ...` expects it to fail and checks its
remarks as well. Directives apply in order, as in LLVM's FileCheck:

- `CHECK:` the text is found, behind the last match
- `CHECK-SAME:` on the line of the last match
- `CHECK-NEXT:` on the line behind it
- `CHECK-NOT:` nowhere between the matches around it

`{{...}}` holds a regular expression; runs of blanks are equal to one blank.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tpuc.errors import TpucError

CommandLine: TypeAlias = Callable[[Sequence[str]], int]

_DIRECTIVE = re.compile(r"(?://|#)\s*(CHECK(?:-[A-Z]+)?):[ \t]*(.*)")
_RUN = re.compile(r"(?://|#)\s*RUN:[ \t]*(.*)")
_PLACE = re.compile(r"%[sSt]")
_KINDS = ("CHECK", "CHECK-SAME", "CHECK-NEXT", "CHECK-NOT")


class GoldenMismatch(TpucError):
    """An output that is not what its file says."""


@dataclass(frozen=True)
class Directive:
    """One expectation, and where it stands."""

    kind: str
    text: str
    line: int

    @property
    def pattern(self) -> re.Pattern[str]:
        """Its text with `{{...}}` as regular expressions."""
        parts = re.split(r"\{\{(.*?)\}\}", self.text)
        return re.compile("".join(f"(?:{part})" if index % 2 else re.escape(part) for index, part in enumerate(parts)))


def directives_of(text: str) -> list[Directive]:
    """The expectations in a file. Raises GoldenMismatch for one that cannot be meant."""
    result: list[Directive] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _DIRECTIVE.search(line)
        if match is None:
            continue
        kind, wanted = match.group(1), _one_blank(match.group(2).strip())
        if kind not in _KINDS:
            raise GoldenMismatch(f"line {number}: {kind} is not known; there are {', '.join(_KINDS)}")
        if not wanted:
            raise GoldenMismatch(f"line {number}: {kind} has no text; say what to look for")
        if kind in ("CHECK-SAME", "CHECK-NEXT") and not any(other.kind != "CHECK-NOT" for other in result):
            raise GoldenMismatch(f"line {number}: {kind} needs a CHECK before it; put one there")
        result.append(Directive(kind, wanted, number))
    return result


def check_output(output: str, directives: Sequence[Directive]) -> None:
    """Compare an output with expectations; raises GoldenMismatch for the first that does not hold."""
    output = _one_blank(output)
    position = 0
    forbidden: list[Directive] = []
    for directive in directives:
        if directive.kind == "CHECK-NOT":
            forbidden.append(directive)
            continue
        start, end = _range(directive, output, position)
        match = directive.pattern.search(output, start, end)
        if match is None:
            raise GoldenMismatch(
                f"line {directive.line}: {directive.kind}: {directive.text}\n"
                f"not found in the output from here on:\n{_excerpt(output, start, end)}"
            )
        _check_absent(forbidden, output, position, match.start())
        forbidden.clear()
        position = match.end()
    _check_absent(forbidden, output, position, len(output))


def run_golden(path: Path, command_line: CommandLine | None = None) -> None:
    """Run every RUN line of a file and check what they print, together. Raises GoldenMismatch."""
    text = path.read_text(encoding="utf-8")
    commands = [match.group(1).strip() for match in map(_RUN.search, text.splitlines()) if match]
    if not commands:
        raise GoldenMismatch(f"{path.name}: no RUN line; say how to make the output")
    directives = directives_of(text)
    if not directives:
        raise GoldenMismatch(f"{path.name}: no CHECK line; say what the output must hold")
    if command_line is None:
        from tpuc_driver.cli import main as command_line
    with tempfile.TemporaryDirectory() as folder:
        places = {"%s": str(path), "%S": str(path.parent), "%t": str(Path(folder) / path.stem)}
        output = "".join(_run(command, places, command_line) for command in commands)
    check_output(output, directives)


def _run(command: str, places: Mapping[str, str], command_line: CommandLine) -> str:
    words = [_PLACE.sub(lambda match: places[match.group()], word) for word in shlex.split(command)]
    fails = words[:1] == ["not"]
    words = words[fails:]
    if words[:1] != ["tpuc"]:
        raise GoldenMismatch(f"RUN: {command}: runs only tpuc; start with 'tpuc' or 'not tpuc'")
    results, remarks = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(results), contextlib.redirect_stderr(remarks):
        code = command_line(words[1:])
    if bool(code) != fails:
        expected = "a failure" if fails else "success"
        raise GoldenMismatch(f"RUN: {command}: exit code {code}, expected {expected}\n{remarks.getvalue()}")
    return results.getvalue() + (remarks.getvalue() if fails else "")


def _range(directive: Directive, output: str, position: int) -> tuple[int, int]:
    if directive.kind == "CHECK":
        return position, len(output)
    start, end = position, _line_end(output, position)
    if directive.kind == "CHECK-NEXT":
        start = min(end + 1, len(output))
        end = _line_end(output, start)
    return start, end


def _check_absent(forbidden: Sequence[Directive], output: str, start: int, end: int) -> None:
    for directive in forbidden:
        match = directive.pattern.search(output, start, end)
        if match is not None:
            line_start = output.rfind("\n", 0, match.start()) + 1
            line = output[line_start : _line_end(output, match.start())]
            raise GoldenMismatch(f"line {directive.line}: CHECK-NOT: {directive.text}\nfound in: {line}")


def _line_end(output: str, position: int) -> int:
    end = output.find("\n", position)
    return len(output) if end < 0 else end


def _one_blank(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text)


def _excerpt(output: str, start: int, end: int) -> str:
    lines = output[start:end].splitlines()
    return "\n".join(lines[:20] + (["..."] if len(lines) > 20 else []))
