"""Manners of the command line: examples that can be typed, sections, endings, several chips, near names."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pytest
from command_summaries import ORDER, built_in, bundled
from tpuc.names import listed, nearest
from tpuc_driver.cli import main
from tpuc_driver.cli.app import App
from tpuc_driver.cli.command import Command, CommandGroup, shown_example
from tpuc_driver.cli.summaries import SECTIONS, SUMMARIES

from tests.families import each

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
COMMANDS = {command.name or "": command for command in built_in().values()} | bundled()


def said(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main([str(one) for one in arguments])
    out, err = capsys.readouterr()
    return code, out + err


@pytest.mark.chip("bm1684x")
@each("name", sorted(COMMANDS))
def test_every_command_shows_examples_that_it_can_read(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = COMMANDS[name]
    assert isinstance(command, Command | CommandGroup)
    assert command.section in ORDER
    assert command.examples
    code, page = said(name, "--help", capsys=capsys)
    assert code == 0
    for example in command.examples:
        line = shown_example(example, ["bm1684x"])
        assert f"  {line}\n" in page
        program, typed, *rest = shlex.split(line)
        assert (program, typed) == ("tpuc", name)
        one: click.Command = command
        while isinstance(one, click.Group):
            one, rest = one.commands[rest[0]], rest[1:]
        one.make_context(name, rest, obj=App())  # raises for an option that is not there, and for a missing one


def test_the_sections_of_the_help_hold_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(SUMMARIES)
    page = said("--help", capsys=capsys)[1]
    places = [page.index(f"\n{section}:\n") for section in ORDER]
    assert places == sorted(places)


@pytest.mark.chip("bm1684x")
def test_a_file_is_not_called_as_those_of_another_chip(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, told = said(
        *("compile", DIGITS / "digits.onnx", "--chip", "CV183X", "-o", tmp_path / "net.bmodel"), capsys=capsys
    )
    assert code == 2
    assert (
        ".bmodel is the suffix of files for 'bm1684x', but files for chip 'CV183X' end in .cvimodel; name it "
        f"{tmp_path}" in told
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.chip("bm1684x")
@pytest.mark.chip("cv181x")
def test_a_file_without_the_chips_suffix_is_known_by_its_content(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, made = DIGITS / "digits.onnx", tmp_path / "net.cv181x"
    assert said("compile", network, "--chip", "cv181x", "--quantize", "bf16", "-o", made, capsys=capsys)[0] == 0
    code, told = said("disasm", made, capsys=capsys)
    assert (code, told.splitlines()[0].split(", by")[0]) == (0, "cvimodel 'digits' for cv181x")
    made.write_bytes(made.read_bytes()[8:])
    code, told = said("disasm", made, capsys=capsys)
    assert code == 1
    assert told.startswith(f"tpuc: {made}: no installed chip reads files of type '.cv181x'; installed chips read .bmo")


def test_several_chips_in_one_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("compile", DIGITS / "digits.onnx", "--chip", "BM1684X,cv183x", "-o", tmp_path / "net")
    code, told = said(*arguments, "--report", tmp_path / "r.json", capsys=capsys)
    assert (code, told.strip()) == (
        2,
        "tpuc: --report and --memory-plan write one file; compile for one chip at a time.",
    )
    code, told = said(*arguments, capsys=capsys)
    assert code == 0, told
    assert sorted(path.name for path in tmp_path.iterdir()) == ["net_bm1684x.bmodel", "net_cv183x.cvimodel"]
    code, told = said("compile", "x.onnx", "--chip", "bm1684x,cv18", "-o", "net", capsys=capsys)
    assert "x.onnx" in told or "no chip named 'cv18'" in told


def test_of_many_names_the_nearest_are_listed() -> None:
    many = [f"layer{number}" for number in range(80)]
    assert nearest("layer77x", many)[0] == "layer77"
    assert len(nearest("layer77x", many)) == 5
    assert listed("q", many).endswith(" and 75 more")
    assert listed("q", ["b", "a"]) == "b, a"


def test_a_file_of_many_arrays_lists_five(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = {f"image{number}": np.zeros((1, 1, 8, 8), np.float32) for number in range(80)}
    np.savez(tmp_path / "many.npz", **arrays)  # pyright: ignore[reportArgumentType]
    code, told = said("run", "--model", DIGITS / "digits.onnx", "--input", tmp_path / "many.npz", capsys=capsys)
    assert code == 1
    assert "no array named 'image', and 80 arrays fit its shape" in told
    assert "and 75 more. Name the array like the input." in told


def test_compile_takes_the_modes_of_single_ops(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "table").write_text("relu3 F32\n")
    start = ("compile", DIGITS / "digits.onnx", "--chip", "bm1684x", "--quantize", "f16")
    for name, more in (("plain", ()), ("mixed", ("--quantize-table", tmp_path / "table"))):
        code, told = said(*start, *more, "-o", tmp_path / f"{name}.bmodel", capsys=capsys)
        assert code == 0, told
    sizes = [said("disasm", tmp_path / f"{name}.bmodel", capsys=capsys)[1] for name in ("plain", "mixed")]
    assert sizes[0] != sizes[1]
    more = ("--quantize-table", tmp_path / "table", "--min-accuracy", "0.9", "--dataset", DIGITS / "digits_calib.npz")
    code, told = said(*start[:4], "--quantize", "int8", *more, "-o", tmp_path / "x.bmodel", capsys=capsys)
    assert (code, told) == (
        2,
        "tpuc: --min-accuracy chooses the mode of each op; leave out --quantize-table.\n",
    )


def test_shells_complete_commands_and_options() -> None:
    words = {"tpuc comp": "plain,compile", "tpuc compile --quantize-t": "plain,--quantize-table"}
    for line, found in words.items():
        environment = {**os.environ, "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}
        environment["_TPUC_COMPLETE"] = "bash_complete"
        program = [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'tpuc'; from tpuc_driver.cli import main; sys.exit(main())",
        ]
        done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
        assert found in done.stdout.splitlines(), done.stderr


@pytest.mark.chip("cv183x")
def test_the_compiled_file_is_called_as_the_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert said("compile", DIGITS / "digits.onnx", "--chip", "cv183x", "--quantize", "bf16", capsys=capsys)[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["digits.cvimodel"]


COMPARISON = "--excepts, --tolerance and --test-reference require --test-input; add --test-input FILE."
SEARCH = "--measure, --max-trials and --accept-point-estimate require --min-accuracy; add --min-accuracy FIGURE."


@each(
    ("options", "sentence"),
    [
        (("--tolerance", "0.9"), COMPARISON),
        (("--excepts", "a"), COMPARISON),
        (("--max-trials", "3"), SEARCH),
        (("--accept-point-estimate",), SEARCH),
        (("--measure", "decisions"), SEARCH),
        (("--batch", "1,0"), "'1,0' is not a list of whole numbers from 1 such as 1,4."),
        (("--batch", "1,4", "--report", "r"), "describe one set of shapes; give a single --input-shapes and --batch."),
        (
            ("--pixel-format", "rgb"),
            "input 'image': pixels in rgb have 3 channels, but its shape 1x1x8x8 (nchw) has 1.",
        ),
        (("--labels", "coco"), "--labels coco has 80 names, but the network has 10 classes;"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_contradicts_writes_nothing(
    options: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("compile", DIGITS / "digits.onnx", "--chip", "cv183x", "-o", tmp_path / "net.cvimodel", *options)
    code, told = said(*command, capsys=capsys)
    assert (code, told.count("\n")) == (2, 1)
    assert sentence in told
    assert list(tmp_path.iterdir()) == []


@pytest.mark.chip("cv183x")
def test_the_settings_file_may_say_what_belongs_to_an_option_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tpuc.toml").write_text("[compile]\ntolerance = [0.9, 0.7]\nmax-trials = 3\n[transform]\ntolerance = 0.9\n")
    network, made = DIGITS / "digits.onnx", ("net.cvimodel", "net.mlir")
    assert said("compile", network, "--chip", "cv183x", "-o", made[0], capsys=capsys)[0] == 0
    assert said("transform", "--model-name", "d", "--model-def", network, "--mlir", made[1], capsys=capsys)[0] == 0
    assert all(map(Path.exists, map(Path, made)))
