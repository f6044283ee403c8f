"""The package of TPU-MLIR's scripts: it holds exactly them, and each stands for a command."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

FOLDER = Path(__file__).resolve().parents[2] / "packages" / "tpuc-mlir-names"
PROJECT = tomllib.loads((FOLDER / "pyproject.toml").read_text("utf-8"))["project"]
SCRIPTS: dict[str, str] = PROJECT["scripts"]


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def test_every_script_is_there_with_and_without_its_ending() -> None:
    from tpuc_mlir_names import SCRIPTS as COMMANDS
    from tpuc_mlir_names import stem_of

    assert set(SCRIPTS.values()) == {"tpuc_mlir_names:main"}
    endings = {name: ".sh" if name in ("run_model", "run_all") else ".py" for name in COMMANDS}
    assert {*SCRIPTS} == {f"{name}{ending}" for name, end in endings.items() for ending in ("", end)}
    assert {stem_of(f"/usr/bin/{script}") for script in SCRIPTS} == {*COMMANDS}
    assert stem_of("model_deploy.py.exe") == "model_deploy"


def test_a_script_answers_as_its_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from tpuc_mlir_names import main

    assert main(["bin/model_deploy.py", "--mlir", "no.mlir"]) == 2
    assert capsys.readouterr().err == "tpuc: deploy: missing option '-o' / '--model'. See 'tpuc deploy --help'.\n"
    monkeypatch.setattr(sys, "argv", ["/bin/npz_tool.py", "dump", "no.npz"])
    assert main() == 1
    assert capsys.readouterr().err.startswith("tpuc: no.npz: ")


@pytest.mark.parametrize(
    ("given", "typed"),
    [
        (["--", "model_name", "resnet"], ["--model_name", "resnet"]),
        (["--", "缩放", "1.0"], ["--scale", "1.0"]),
        (["-o", "table"], ["-o", "table"]),
    ],
)
def test_printed_options_are_typed_ones(given: list[str], typed: list[str]) -> None:
    from tpuc_mlir_names import respelled

    assert respelled(given) == typed


def test_it_installs_and_its_scripts_start(tmp_path: Path) -> None:
    """Into a folder of its own, without network."""
    wheel = Path(next(WheelBuilder(str(FOLDER)).build(directory=str(tmp_path), versions=["standard"])))
    with zipfile.ZipFile(wheel) as archive:
        packages = {name.split("/")[0] for name in archive.namelist()}
    assert packages == {"tpuc_mlir_names", "tpuc_mlir_names-0.1.0.dist-info"}
    target = tmp_path / "prefix"
    install = ["install", "--quiet", "--no-index", "--no-deps", "--target", str(target), str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", *install], check=True, capture_output=True)
    for script in ("model_transform.py", "run_all.sh"):
        (program,) = (target / "bin").glob(script)
        done = subprocess.run(
            [sys.executable, str(program), "--help"],
            env={"PYTHONPATH": str(target), "PATH": ""},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Usage: tpuc ")
