"""Options from tpuc.toml in the current folder."""

from __future__ import annotations

import pytest

from tests.core.cli import CommandLine
from tests.core.fakes import chip, offer
from tests.core.test_cli_shell import SHOW
from tests.families import each


@pytest.fixture
def installed(tpuc: CommandLine) -> CommandLine:
    tpuc.install(SHOW, chip("a", "one"), chip("b", "two"), offer("hooks", "watcher", object(), "three"))
    return tpuc


def test_a_table_gives_options_of_its_command(installed: CommandLine) -> None:
    installed.file("tpuc.toml", '[show]\ncalibration_table = "t"\ncount = 3\n')
    assert installed("show").out == "t 3 [] [] [] False\n"


def test_the_command_line_wins(installed: CommandLine) -> None:
    installed.file("tpuc.toml", 'prefer = "one"\n[show]\ncalibration-table = "t"\n')
    outcome = installed("show", "--calibration-table", "u", "--prefer", "two")
    assert outcome.out == "u 1 [] [] ['two', 'one'] False\n"


def test_with_and_prefer_are_global(installed: CommandLine) -> None:
    installed.file("tpuc.toml", 'with = ["watcher"]\nprefer = ["one", "two"]\n')
    assert installed("show").out == "None 1 [] ['watcher'] ['one', 'two'] False\n"


def test_a_seed_name_may_head_a_table(installed: CommandLine) -> None:
    installed.file("tpuc.toml", '[run_calibration]\ndataset = "nowhere"\n')
    assert installed("calibrate", "m", "-o", "t").err == "tpuc: m: no such file or directory. Check the path.\n"


def test_lists_need_no_commas(installed: CommandLine) -> None:
    installed.file("tpuc.toml", '[transform]\ninput-shapes = [[1, 0]]\nmodel-name = "m"\n')
    outcome = installed("transform", "--model-def", "m", "--mlir", "m.mlir")
    assert "'[[1, 0]]' has an extent below 1" in outcome.err


def test_pipelines_may_be_replaced(installed: CommandLine) -> None:
    installed.file("tpuc.toml", '[pipelines]\nlower = ["mine{x=1}", "yours"]\n')
    assert "lower         mine{x=1} yours\n" in installed("opt", "--list").out


@each(
    ("text", "sentence"),
    [
        ("[show\n", "tpuc.toml: not valid TOML: "),
        ("[show]\ncount = inf\n", "show: invalid value for '--count': 'inf' is not a valid integer."),
        ("[show]\ncount = 2.5\n", "show: invalid value for '--count': '2.5' is not a valid integer."),
        ("[show]\ncount = true\n", "show: invalid value for '--count': 'true' is not a valid integer."),
        (
            "[show]\ncount = 1979-05-27\n",
            "tpuc.toml: [show] count is a date or time; write text, a number, true or false.\n",
        ),
        ("[show]\ncount = [1]\n", "tpuc.toml: [show] count is a list; write text, a number, true or false.\n"),
        ("[show]\ncount = {a = 1}\n", "tpuc.toml: [show] count is a table; write text, a number, true or false.\n"),
        (
            "[show]\nfiles = [[1]]\n",
            "tpuc.toml: [show] files is a list; write text, a number, true, false or a list of these.\n",
        ),
        ('[show]\ncalibration-table = "a\\u0000"\n', "tpuc.toml: [show] calibration-table holds a NUL character;"),
        (
            f"[show]\ncount = {'[' * 100_000}{']' * 100_000}\n",
            "tpuc.toml: its values are nested too deeply or are too long. Shorten them.\n",
        ),
        (
            f"[show]\ncount = {'9' * 5000}\n",
            "tpuc.toml: its values are nested too deeply or are too long. Shorten them.\n",
        ),
        ("[shw]\n", "tpuc.toml: no command named 'shw'. Did you mean 'show'?\n"),
        ("[show]\ncoun = 1\n", "tpuc.toml: [show] no option named 'coun'. Did you mean 'count'?\n"),
        ("[show]\nzzz = 1\n", "tpuc.toml: [show] no option named 'zzz'. There are: calibration-table, count, "),
        ("with = 3\n", 'tpuc.toml: with is not a list of names; write with = ["NAME"].\n'),
        ("prefer = [3]\n", 'tpuc.toml: prefer is not a list of names; write prefer = ["NAME"].\n'),
        ("show = 3\n", "tpuc.toml: show is not a table of options; write [show] above them.\n"),
        ("[pipelines]\nlower = 3\n", 'tpuc.toml: pipelines.lower is not a list of names; write lower = ["NAME"].\n'),
        ('[show]\ncount = "many"\n', "show: invalid value for '--count': 'many' is not a valid integer. "),
        ('with = "nobody"\n', "no plugin named 'nobody'. "),
    ],
)
def test_a_wrong_file_is_explained(installed: CommandLine, text: str, sentence: str) -> None:
    installed.file("tpuc.toml", text)
    outcome = installed("show")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"tpuc: {sentence}")


def test_an_unknown_pipeline_is_refused(installed: CommandLine) -> None:
    installed.file("tpuc.toml", '[pipelines]\nlowr = ["a"]\n')
    assert installed("opt", "--list").err.startswith("tpuc: tpuc.toml: no pipeline named 'lowr'. Pipelines: top-")


def test_help_does_not_read_it(installed: CommandLine) -> None:
    installed.file("tpuc.toml", "broken [")
    assert installed("--help").code == 0
