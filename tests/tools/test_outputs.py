"""No command writes over a file that it reads, nor two files to one place."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from tpuc.errors import UsageError
from tpuc_driver.cli.outputs import check_output
from tpuc_driver.cli.shell import Shell
from tpuc_driver.cli.values import OutputType

from tests.core.cli import CommandLine

NETWORK = "n.onnx"


@pytest.fixture
def tpuc(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return CommandLine(tmp_path, capsys, monkeypatch)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["compile", NETWORK, "--chip=bm1684x", "-o", NETWORK], "-o n.onnx: would overwrite n.onnx, the input MODEL."),
        (
            ["compile", NETWORK, "--chip=bm1684x", "-o", "m", "--report", NETWORK],
            "--report n.onnx: would overwrite n.onnx, the input MODEL.",
        ),
        (
            ["compile", NETWORK, "--chip=bm1684x", "-o", "m", "--memory-plan", "m"],
            "--memory-plan m: would overwrite m, the output -o.",
        ),
        (
            ["compile", NETWORK, "--chip=bm1684x", "--test-input", "x.npz", "-o", "x.npz"],
            "-o x.npz: would overwrite x.npz, the input --test-input.",
        ),
        (
            ["deploy", "--mlir", "n.mlir", "--chip=bm1684x", "--quantize=f32", "-o", "n_weight.npz"],
            "-o n_weight.npz: would overwrite n.mlir, the input --mlir.",
        ),
        (
            ["transform", "--model-name=n", "--model-def", NETWORK, "--model-data=w_weight.npz", "--mlir=w.mlir"],
            "--mlir w.mlir: would overwrite w_weight.npz, the input --model-data.",
        ),
        (["opt", "n.mlir", "-o", "n.mlir"], "-o n.mlir: would overwrite n.mlir, the input FILE.mlir."),
        (
            ["calibrate", "n.mlir", "--dataset", "x.npz", "-o", "x.npz"],
            "-o x.npz: would overwrite x.npz, the input --dataset.",
        ),
        (
            ["calibrate", "n.mlir", "--dataset", "x.npz", "-o", "x"],
            "statistics x.npz: would overwrite x.npz, the input.",
        ),
        (
            ["qtable", "n.mlir", "--chip=bm1684x", "--calibration-table=t", "--dataset=x.npz", "-o", "t"],
            "-o t: would overwrite t, the input --calibration-table.",
        ),
        (
            ["run", "--input", "x.npz", "--model", NETWORK, "-o", "x.npz"],
            "-o x.npz: would overwrite x.npz, the input --input.",
        ),
        (["disasm", NETWORK, "-o", NETWORK], "-o n.onnx: would overwrite n.onnx, the input FILE."),
        (["profile", NETWORK, "--html", NETWORK], "--html n.onnx: would overwrite n.onnx, the input FILE."),
        (["profile", NETWORK, "--trace", NETWORK], "--trace n.onnx: would overwrite n.onnx, the input FILE."),
        (["plan", "l.json", "--dump", "l.json"], "--dump l.json: would overwrite l.json, the input."),
        (["reduce", NETWORK, "-o", NETWORK], "-o n.onnx: would overwrite n.onnx, the input MODEL."),
        (
            ["visual", "--f32-mlir=n.mlir", "--quant-mlir=n.mlir", "--input=x.npz", "-o", "n.mlir"],
            "-o n.mlir: would overwrite n.mlir, the input --f32-mlir.",
        ),
        (["npz", "to-npy", "x.npz", "x", "-o", "x.npz"], "-o x.npz: would overwrite x.npz, the input FILE.npz."),
        (["npz", "to-dat", "x.npz", "x.npz"], "TARGET.dat x.npz: would overwrite x.npz, the input FILE.npz."),
        (["npz", "merge", "x.npz", "y.npz", "x.npz"], "merge x.npz: would overwrite x.npz, the input."),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_that_would_write_over_what_it_reads_is_refused(
    arguments: list[str], said: str, tpuc: CommandLine
) -> None:
    for name in (NETWORK, "n.mlir", "n_weight.npz", "w_weight.npz", "x.npz", "y.npz", "t", "l.json"):
        tpuc.file(name, name)
    outcome = tpuc(*arguments)
    assert outcome.err == f"tpuc: {said} Choose another name.\n"
    assert outcome.code == 2
    assert all(path.read_text() == path.name for path in tpuc.folder.iterdir())


def test_every_option_that_writes_is_checked() -> None:
    """`-o` and what else is written; that is known by its words."""
    unchecked: list[str] = []
    context = click.Context(Shell())

    def look(name: str, command: click.Command | None) -> None:
        if isinstance(command, click.Group):
            for sub in command.list_commands(context):
                look(f"{name} {sub}", command.get_command(context, sub))
        for parameter in command.params if command is not None else []:
            writes = isinstance(parameter, click.Option) and "rite" in (parameter.help or "") and not parameter.is_flag
            if writes and not isinstance(parameter.type, OutputType) and parameter.metavar != "DIR":
                unchecked.append(f"{name} {parameter.opts[0]}")

    for name in Shell().list_commands(context):
        look(name, Shell().get_command(context, name))
    assert [one for one in unchecked if "--dump-after" not in one] == []  # names a pass; it writes into a folder


def test_other_names_of_a_file_are_that_file(tmp_path: Path) -> None:
    file, link, hard = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    file.write_text("x")
    link.symlink_to(file)
    hard.hardlink_to(file)
    for other in (link, hard, tmp_path / "." / "a"):
        with pytest.raises(UsageError, match="would overwrite"):
            check_output("-o", other, [file])
    check_output("-o", tmp_path / "d", [file])
    check_output("-o", Path("/dev/null"), [Path("/dev/null")])
