"""The notebooks of the documentation run from top to bottom, and are committed without what they print.

`nox -s docs` executes them in Jupyter; here they are Python.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tpuc_driver.cli import main

from tests.families import each

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
TOLD = {"accuracy": "int8 by kld           99.0%", "chip": "cycles become", "detector": "mAP50  0.9"}
"""Part of what they print."""
SHELL = re.compile(r"^!tpuc (.*)$", re.MULTILINE)


def cells(path: Path) -> list[dict[str, Any]]:
    """The code cells."""
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def shell(line: str) -> None:
    """What Jupyter gives to a shell."""
    assert main(shlex.split(line)) == 0, line


@pytest.mark.slow
@pytest.mark.chip("bm1684x")
@pytest.mark.chip("cv181x")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("default")
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    code = ["".join(cell["source"]) for cell in cells(path)]
    runnable = [SHELL.sub(lambda match: f"shell(f{match[1]!r})", one) for one in code]
    exec("\n".join(runnable), {"__name__": path.stem, "shell": shell})  # noqa: S102  # our own notebook
    assert TOLD[path.stem] in capsys.readouterr().out


@each("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_no_results(path: Path) -> None:
    assert [cell for cell in cells(path) if cell["outputs"] or cell["execution_count"] is not None] == []
