"""The golden-text checker, against what FileCheck would say."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tpuc_testing.golden import GoldenMismatch, check_output, directives_of, run_golden

from tests.families import each

pytest_plugins = ("pytester",)

OUTPUT = """\
first  line a
second line b c
third line
"""


def check(directives: str, output: str = OUTPUT) -> None:
    check_output(output, directives_of(directives))


@each(
    "directives",
    [
        "// CHECK: first line\n// CHECK: third",
        "// CHECK: first{{ +}}line {{[a-z]}}\n// CHECK-NEXT: line b",
        "// CHECK: line b\n// CHECK-SAME: c\n// CHECK-NOT: first",
        "// CHECK: first\n// CHECK-NOT: third\n// CHECK: second",
        "// CHECK-NOT: fourth",
        "# CHECK: second {{line|row}} b",
    ],
)
def test_texts_that_hold(directives: str) -> None:
    check(directives)


@each(
    ("directives", "sentence"),
    [
        ("// CHECK: third\n// CHECK: first", r"line 2: CHECK: first\nnot found in the output from here on:"),
        ("// CHECK: line b\n// CHECK-SAME: third", "line 2: CHECK-SAME: third\nnot found"),
        ("// CHECK: first\n// CHECK-NEXT: third", "line 2: CHECK-NEXT: third\nnot found"),
        (
            "// CHECK: first\n// CHECK-NOT: line b\n// CHECK: third",
            "line 2: CHECK-NOT: line b\nfound in: second line b c",
        ),
        ("// CHECK: first\n// CHECK-NOT: third", "line 2: CHECK-NOT: third\nfound in: third line"),
        ("// CHECK-DAG: first", "line 1: CHECK-DAG is not known; there are CHECK, CHECK-SAME, CHECK-NEXT, CHECK-NOT"),
        ("// CHECK:", "line 1: CHECK has no text; say what to look for"),
        ("// CHECK-SAME: first", "line 1: CHECK-SAME needs a CHECK before it; put one there"),
    ],
)
def test_texts_that_do_not_hold(directives: str, sentence: str) -> None:
    with pytest.raises(GoldenMismatch, match=sentence):
        check(directives)


def command_line(words: Sequence[str]) -> int:
    """Prints the file's first line, or fails."""
    if words[0] == "fail":
        sys.stderr.write("tpuc: no chip named 'x'\n")
        return 2
    if words[0] == "copy":
        Path(words[2]).write_text(Path(words[1]).read_text())
    else:
        sys.stdout.write(Path(words[1]).read_text().splitlines()[0] + "\n")
    return 0


def test_a_file_runs_itself(tmp_path: Path) -> None:
    path = tmp_path / "net.mlir"
    path.write_text("module @m\n// RUN: tpuc opt %s\n// CHECK: module @m\n")
    run_golden(path, command_line)
    (tmp_path / "other.mlir").write_text("module @other\n")
    path.write_text("// RUN: tpuc copy %S/other.mlir %t.mlir\n// RUN: tpuc opt %t.mlir\n// CHECK: module @other\n")
    run_golden(path, command_line)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["net.mlir", "other.mlir"]
    path.write_text("module @m\n// RUN: not tpuc fail\n// CHECK: no chip named {{.*}}\n")
    run_golden(path, command_line)


@each(
    ("text", "sentence"),
    [
        ("// CHECK: a", "net.mlir: no RUN line; say how to make the output"),
        ("// RUN: tpuc opt %s", "net.mlir: no CHECK line; say what the output must hold"),
        ("// RUN: rm %s\n// CHECK: a", "RUN: rm %s: runs only tpuc; start with 'tpuc' or 'not tpuc'"),
        ("// RUN: tpuc fail\n// CHECK: a", "RUN: tpuc fail: exit code 2, expected success\ntpuc: no chip named 'x'"),
        ("// RUN: not tpuc opt %s\n// CHECK: a", "RUN: not tpuc opt %s: exit code 0, expected a failure"),
    ],
)
def test_files_that_cannot_run(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "net.mlir"
    path.write_text(text)
    with pytest.raises(GoldenMismatch, match=sentence):
        run_golden(path, command_line)


def test_pytest_collects_files_with_a_run_line(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("from tpuc_testing.golden_plugin import pytest_collect_file")
    pytester.makefile(".mlir", good="// RUN: tpuc --version\n// CHECK: {{[0-9]}}\n", data="module {}\n")
    pytester.makefile(".mlir", bad="// RUN: tpuc --version\n// CHECK: no such text\n")
    result = pytester.runpytest("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*bad.mlir: line 2: CHECK: no such text*"])
