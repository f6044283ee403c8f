"""The shell finds commands, and every error is one sentence with an exit code."""

from __future__ import annotations

import errno
import os
import warnings
from typing import Any

import click
import pytest
from tpuc.errors import CorruptFile, UsageError
from tpuc.files import CannotWrite
from tpuc.registry import Offer
from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command, CommandGroup, joined_lists
from tpuc_driver.cli.summaries import BUILT_IN
from tpuc_importing.obstacles import ImportRefused

from tests.core.cli import CommandLine
from tests.core.fakes import chip, offer


def failing(error: BaseException, name: str = "fail") -> Offer:
    """A command that raises."""

    @click.command(name, cls=Command)
    def command() -> None:
        raise error

    return offer("commands", name, command)


@click.command("show", cls=Command)
@click.option("--calibration-table")
@click.option("--count", type=int, default=1)
@click.argument("files", nargs=-1)
@pass_app
def show(app: App, calibration_table: str | None, count: int, files: tuple[str, ...]) -> int:
    """Show what arrived."""
    choices = f"{list(app.registry.enabled)} {list(app.registry.prefer)} {app.verbose}"
    app.result(f"{calibration_table} {count} {list(files)} {choices}")
    app.log("in detail")
    return 1 if count == 7 else 0


SHOW = offer("commands", "show", show)


def test_help_lists_every_command_without_loading_one(tpuc: CommandLine) -> None:
    tpuc.install(offer("commands", "polish", ImportError("never"), "polish-tools", "0.2"))
    outcome = tpuc("--help")
    assert outcome.code == 0
    listed = [line for line in outcome.out.split("\nCompile:\n")[1].splitlines() if line.startswith("  ")]
    lines = {line.split()[0]: " ".join(line.split()[1:]) for line in listed if line[2] != " "}  # others go on
    assert set(lines) == {*BUILT_IN, "polish"}
    assert lines["compile"] == "Compile a network for one or several chips."
    assert "\nFrom other packages:\n  polish " in outcome.out
    assert lines["polish"] == "(from polish-tools 0.2)"


def test_without_a_command_the_help_goes_to_stderr(tpuc: CommandLine) -> None:
    outcome = tpuc()
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith("Usage: tpuc")


def test_every_built_in_command_has_help(tpuc: CommandLine) -> None:
    for name in BUILT_IN:
        outcome = tpuc(name, "--help")
        assert outcome.code == 0
        assert outcome.out.startswith(f"Usage: tpuc {name} ")
        assert "--prefer PACKAGE" in outcome.out


@pytest.mark.parametrize(
    ("typed", "command"),
    [
        ("model_transform", "transform"),
        ("model_transform.py", "transform"),
        ("run_calibration", "calibrate"),
        ("run-calibration", "calibrate"),
        ("model_deploy", "deploy"),
        ("model_runner", "run"),
        ("tpuc-opt", "opt"),
    ],
)
def test_seed_names_are_aliases(tpuc: CommandLine, typed: str, command: str) -> None:
    assert tpuc(typed, "--help").out.startswith(f"Usage: tpuc {command} ")


@pytest.mark.parametrize(
    ("typed", "command"),
    [("model_eval", "eval"), ("npz_tool", "npz"), ("visual", "visual")],
)
def test_seed_names_reach_installed_tools(tpuc: CommandLine, typed: str, command: str) -> None:
    assert tpuc(typed).err.startswith(f"tpuc: no command named '{typed}'.")
    tpuc.install(failing(UsageError("reached"), command))
    assert tpuc(typed).err == "tpuc: reached\n"


@pytest.mark.parametrize("spelling", ["--calibration_table", "--calibration-table", "--Calibration_TABLE"])
def test_underscores_and_dashes_and_both_cases_are_the_same_in_options(tpuc: CommandLine, spelling: str) -> None:
    tpuc.install(SHOW)
    assert tpuc("show", spelling, "a_b").out == "a_b 1 [] [] [] False\n"
    assert tpuc("show", f"{spelling}=a_b-c", "x_y").out == "a_b-c 1 ['x_y'] [] [] False\n"


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        (["--mean", "1,", "2,", "-3", "--v"], ["--mean", "1,2,-3", "--v"]),
        (["--shapes", "[[1,", "3]]", "x"], ["--shapes", "[[1,3]]", "x"]),
        (["--names", "a,", "--other"], ["--names", "a,", "--other"]),
        (["a,"], ["a,"]),
        ([], []),
    ],
)
def test_lists_may_have_blanks_behind_commas(given: list[str], joined: list[str]) -> None:
    assert joined_lists(given) == joined


def test_global_options_may_stand_before_or_after_the_command(tpuc: CommandLine) -> None:
    tpuc.install(SHOW, chip("a", "one"), chip("b", "two"))
    outcome = tpuc("--with", "one", "-v", "show", "--with", "two", "--prefer", "two")
    assert outcome.out == "None 1 [] ['one', 'two'] ['two'] True\n"
    assert outcome.err == "in detail\n"


def test_a_command_s_number_is_the_exit_code(tpuc: CommandLine) -> None:
    tpuc.install(SHOW)
    assert tpuc("show", "--count", "7").code == 1


def test_the_version_is_shown(tpuc: CommandLine) -> None:
    assert tpuc("--version").out.startswith("tpuc ")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["comple"], "no command named 'comple'. Did you mean 'compile'? Commands: calibrate, combine, compile, "),
        (["--foo"], "no such option"),
        (["compile"], "compile: missing argument 'MODEL'. See 'tpuc compile --help'."),
        (["deploy", "--mlir", "m"], "deploy: missing option '-o' / '--model'. See 'tpuc deploy --help'."),
        (["disasm", "a", "b"], "disasm: got unexpected extra argument (b). See 'tpuc disasm --help'."),
        (
            ["calibrate", "m", "--input-num", "x"],
            "calibrate: invalid value for '--input-num': 'x' is not a valid whole number. See 'tpuc calibrate --help'.",
        ),
        (
            ["transform", "--input-shapes", "q"],
            "transform: invalid value for '--input-shapes': 'q' is not a list of shapes such as [[1,3,224,224]]. See ",
        ),
        (["plugins", "--prefer", "nobody"], "no plugin package named 'nobody': no installed package offers one."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_one_sentence_and_exit_code_2(
    tpuc: CommandLine, arguments: list[str], sentence: str
) -> None:
    outcome = tpuc(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"tpuc: {sentence}")
    assert outcome.err.count("\n") == 1


def test_a_close_option_is_suggested(tpuc: CommandLine) -> None:
    err = tpuc("opt", "--verify-eac").err
    assert err.startswith("tpuc: opt: no such option '--verify-eac'")
    assert err.endswith("See 'tpuc opt --help'.\n")


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (CorruptFile("a.bin: is cut short. Copy it again."), 1, "a.bin: is cut short. Copy it again."),
        (UsageError("chip 'a' has no mode 'b'."), 2, "chip 'a' has no mode 'b'."),
        (CannotWrite("a.bin: cannot be written: full."), 1, "a.bin: cannot be written: full."),
        (
            FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "net.onnx"),
            1,
            "net.onnx: no such file or directory. Check the path.",
        ),
        (
            PermissionError(errno.EACCES, os.strerror(errno.EACCES), "net.onnx"),
            1,
            "net.onnx: permission denied. Choose a place that you may use.",
        ),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
            1,
            "input or output: no space left on device. Free some space there or choose another place.",
        ),
        (
            ValueError("two\nlines"),
            1,
            "internal error: ValueError: two lines; run again with -v for the traceback",
        ),
        (AssertionError(), 1, "internal error: AssertionError; run again with -v for the traceback"),
        (click.ClickException("odd"), 1, "odd"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_is_one_sentence_with_its_exit_code(
    tpuc: CommandLine, error: Exception, code: int, sentence: str
) -> None:
    tpuc.install(failing(error))
    outcome = tpuc("fail")
    assert (outcome.code, outcome.out, outcome.err) == (code, "", f"tpuc: {sentence}\n")


@pytest.mark.parametrize("arguments", [["-v", "fail"], ["fail", "-v"]], ids=" ".join)
def test_verbose_shows_the_traceback_first(tpuc: CommandLine, arguments: list[str]) -> None:
    tpuc.install(failing(ValueError("a bug")))
    lines = tpuc(*arguments).err.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1].startswith("tpuc: internal error: ValueError: a bug")


def test_an_interrupt_is_130(tpuc: CommandLine) -> None:
    tpuc.install(failing(KeyboardInterrupt()))
    outcome = tpuc("fail")
    assert outcome.code == 130
    assert outcome.err == "tpuc: interrupted\n"


def test_a_broken_command_is_named_and_the_others_work(tpuc: CommandLine) -> None:
    tpuc.install(offer("commands", "broken", ImportError("no parts"), "parts", "0.1"), SHOW)
    outcome = tpuc("broken")
    assert outcome.code == 2
    assert outcome.err == (
        "tpuc: command 'broken' of parts 0.1 cannot be loaded: ImportError: no parts. "
        "Install what it needs, or uninstall parts.\n"
    )
    assert tpuc("show").code == 0


def test_a_command_of_two_packages_conflicts_on_use(tpuc: CommandLine) -> None:
    tpuc.install(offer("commands", "show", show, "one"), offer("commands", "show", show, "two"))
    assert tpuc("show").err.startswith("tpuc: command 'show' is offered by two packages: one 1.0, two 1.0.")
    assert tpuc("--prefer", "two", "show").code == 0


def test_a_command_with_the_name_of_a_built_in_one_is_an_error_unless_prefer_chooses(tpuc: CommandLine) -> None:
    tpuc.install(offer("commands", "plugins", show, "other"), offer("chips", "mine", None, "tpuc"))
    outcome = tpuc("plugins")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        "tpuc: command 'plugins' of other 1.0 has the same name as a built-in command. Its author has to rename it; "
        "until then, uninstall it, or choose one with --prefer PACKAGE.\n"
    )
    assert tpuc("--prefer", "other", "plugins").out.startswith("None 1 [] ")
    assert "other:plugins" in tpuc("--prefer", "tpuc", "plugins").out


def test_a_command_may_have_commands_of_its_own(tpuc: CommandLine) -> None:
    @click.group("npz", cls=CommandGroup)
    def npz() -> None:
        """Look into npz files."""

    @npz.command("dump")
    @click.argument("file_name")
    @click.option("--all-names", is_flag=True)
    @pass_app
    def dump(app: App, file_name: str, all_names: bool) -> None:
        app.result(f"{file_name} {all_names}")

    assert isinstance(dump, Command)
    tpuc.install(offer("commands", "npz", npz))
    assert tpuc("npz_tool", "dump", "a_b.npz", "--all_names").out == "a_b.npz True\n"
    outcome = tpuc("npz")
    assert (outcome.code, outcome.err) == (2, "tpuc: npz: missing command. See 'tpuc npz --help'.\n")


def test_progress_passes_items_on(capsys: Any) -> None:
    assert list(App().progress([1, 2, 3], "counting", 3)) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("node 'a\nb' reads 'x\r\ny'.", r"node 'a\nb' reads 'x\r\ny'."),
        ("\x1b[31mred\u202e\ud800.", r"\x1b[31mred\u202e\ud800."),
        (f"node '{'a' * 70_000}': no. Go.", f"node '{'a' * 104} ... {'a' * 51}': no. Go."),
        (f"operator {'b' * 70_000} is not known. Go.", f"operator {'b' * 50} ... {'b' * 25} is not known. Go."),
    ],
)
def test_names_in_a_sentence_are_escaped_and_shortened(tpuc: CommandLine, text: str, shown: str) -> None:
    tpuc.install(failing(UsageError(text)))
    assert tpuc("fail").err == f"tpuc: {shown}\n"


def test_no_sentence_is_longer_than_500_characters(tpuc: CommandLine) -> None:
    text = "thing: " + "many words of a reason " * 100 + "and the way out."
    for error in (UsageError(text), ValueError(text), click.ClickException(text)):
        tpuc.install(failing(error))
        err = tpuc("fail").err
        assert len(err) <= 500
        assert err.count("\n") == 1
        assert " ... " in err
    tpuc.install(failing(UsageError(text)))
    assert tpuc("fail").err.endswith("and the way out.\n")


def test_refusals_of_one_network_stand_on_one_line(tpuc: CommandLine) -> None:
    tpuc.install(failing(ImportRefused("m: one. Go.\nm: 'a\\nb'. Go.", {}, ())))
    assert tpuc("fail").err == "tpuc: m: one. Go. m: 'a\\nb'. Go.\n"


def test_memory_that_is_not_there_is_a_sentence(tpuc: CommandLine) -> None:
    tpuc.install(failing(MemoryError("Unable to allocate 4.00 TiB")))
    outcome = tpuc("fail")
    assert outcome.code == 1
    assert outcome.err == (
        "tpuc: not enough memory: unable to allocate 4.00 TiB. Close other programs, or use a smaller batch.\n"
    )


def test_the_end_of_a_file_is_no_interruption(tpuc: CommandLine) -> None:
    tpuc.install(failing(EOFError("half a file")))
    outcome = tpuc("fail")
    assert (outcome.code, outcome.err) == (
        1,
        "tpuc: internal error: EOFError: half a file; run again with -v for the traceback\n",
    )


def test_warnings_of_libraries_are_remarks_told_once(tpuc: CommandLine) -> None:
    @click.command("warn", cls=Command)
    def command() -> None:
        warnings.simplefilter("always")
        for _ in range(3):
            warnings.warn_explicit("invalid value\nin matmul", RuntimeWarning, "/x/core/tpuc_driver/similarity.py", 37)
        warnings.warn_explicit("a bomb?", UserWarning, "/x/site-packages/PIL/Image.py", 1)

    tpuc.install(offer("commands", "warn", command))
    outcome = tpuc("warn")
    assert (outcome.code, outcome.err) == (0, "numpy: invalid value in matmul\nPIL: a bomb?\n")


def test_remarks_stay_on_one_line(tpuc: CommandLine) -> None:
    @click.command("say", cls=Command)
    @pass_app
    def command(app: App) -> None:
        app.remark("left out: a\nb")

    tpuc.install(offer("commands", "say", command))
    assert tpuc("say").err == "left out: a\\nb\n"
