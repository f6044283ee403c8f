"""Tables fit a terminal, are tab-separated for programs, and aligned for whoever else reads them."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tpuc_driver.cli.tables import fitted, reader_of, write_table

ROWS = [
    ("layer", "SQNR dB", "share", "op"),
    ("a/very/long/name/of/a/layer/that/no/terminal/shows/whole", "31.5", "1.5%", "top.Conv"),
    ("short", "1,234.0", "-", "top.Softmax"),
]
STYLE = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    text = fitted(ROWS, width, lambda row: "red" if row[0] == "short" else "")
    lines = STYLE.sub("", text).splitlines()
    assert len(lines) == len(ROWS)
    assert max(map(len, lines)) <= width
    if width >= 60:
        assert all(number in STYLE.sub("", text) for number in ("31.5", "1,234.0", "1.5%"))
    assert ("…" in text) == (width < 90)


def test_colors_mark_rows_unless_they_are_not_wanted() -> None:
    text = fitted(ROWS, 100, lambda row: "red" if row[0] == "short" else "")
    assert [line for line in text.splitlines() if "\x1b[31m" in line] == text.splitlines()[2:]
    assert "\x1b" not in fitted(ROWS, 100, lambda _: "red", is_plain=True)


def test_numbers_stand_below_each_other_at_the_right() -> None:
    lines = STYLE.sub("", fitted(ROWS, 200)).splitlines()
    assert lines[1].index("31.5") + 4 == lines[2].index("1,234.0") + 7


def test_programs_get_tabs_and_all_of_every_cell(tmp_path: Path) -> None:
    file = tmp_path / "table"
    with file.open("w") as stream:
        assert reader_of(stream) == "program"
        write_table(stream, [*ROWS, ("tab\there", "", "", "")])
    assert file.read_text() == "".join("\t".join(row) + "\n" for row in ROWS) + "tab\\there\t\t\t\n"


def test_others_get_aligned_text() -> None:
    out = io.StringIO()
    assert reader_of(out) == "text"
    write_table(out, [("a", "bb"), ("ccc", "d")])
    write_table(out, [])
    assert out.getvalue() == "a    bb\nccc  d\n"


@pytest.mark.chip("c")
def test_a_command_in_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    """A command prints the same cells to both; a closed pipe is no error."""
    pty = pytest.importorskip("pty", reason="terminals of Unix")
    command = [sys.executable, "-m", "tpuc", "matrix", "--chip", "c"]
    piped = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert piped.splitlines()[0].split("\t")[0] == "op"
    assert "\x1b" not in piped
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": "40", "TERM": "xterm"}
    with subprocess.Popen(command, stdout=follower, stderr=subprocess.PIPE, env=environment) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        assert process.wait() == 0
    os.close(leader)
    lines = STYLE.sub("", shown.decode()).splitlines()
    assert max(map(len, lines)) <= 40
    assert (
        lines[1].split()[0].rstrip("…") == piped.splitlines()[1].split("\t")[0][: len(lines[1].split()[0].rstrip("…"))]
    )
    closed = subprocess.run(
        f"{' '.join(command)} | head -1 > {tmp_path / 'head'}", shell=True, capture_output=True, text=True, check=False
    )
    assert (closed.stderr, (tmp_path / "head").read_text().split("\t")[0]) == ("", "op")
