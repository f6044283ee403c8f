"""Python code on the pages for users runs from top to bottom, and shell commands there do what they say."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tpuc_driver.cli import main

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("python.md",)
COMMAND = re.compile(r"^tpuc .*$", re.MULTILINE)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.chip("bm1684x")
@pytest.mark.parametrize("name", PAGES)
@pytest.mark.filterwarnings("default")
def test_the_code_of_a_page_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    blocks = BLOCK.findall((ROOT / "docs" / name).read_text("utf-8"))
    exec("\n".join(blocks), {"__name__": name})  # noqa: S102  # our own page
    told = capsys.readouterr().out
    assert "198 of 200 right" in told
    assert "no input named 'imge'. Did you mean 'image'?" in told


def test_the_code_about_errors_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    (block,) = BLOCK.findall((ROOT / "docs" / "errors.md").read_text("utf-8"))
    exec(block, {"__name__": "errors.md"})  # noqa: S102  # our own page
    assert "array 'image': shape (3, 7) does not fit input 'image' (1, 1, 8, 8)." in capsys.readouterr().out


@pytest.mark.chip("bm1684x")
def test_the_commands_of_the_tutorial_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (ROOT / "examples" / "digits").glob("digits*"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    commands = COMMAND.findall((ROOT / "docs" / "tutorial.md").read_text("utf-8"))
    told: list[str] = []
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
        told.append(capsys.readouterr().out)
    assert len(commands) == 12
    assert "predictions agree with float" in told[1]
    assert "top-1       0.9900       0.9900" in told[3]
    assert "relu1" in told[4]
    assert (tmp_path / "digits.bmodel").read_bytes() == (tmp_path / "again.bmodel").read_bytes()
    assert {"profile.html", "answers.npz", "stepwise.bmodel"} <= {path.name for path in tmp_path.iterdir()}
