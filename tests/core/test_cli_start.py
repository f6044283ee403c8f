"""`tpuc --help` is quick because it loads next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys

from command_summaries import TARGET, render

from tests.families import each

HEAVY = ("numpy", "rich", "pluggy", "onnx", "PIL", "tomllib", "difflib", "tpuc.ir", "tpuc.api", "tpuc_driver.session")


@each("arguments", [["--help"], ["--version"], ["plugins"], ["compile", "--help"]], ids=" ".join)
def test_starting_loads_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys; from tpuc_driver.cli import main; status = main(sys.argv[1:]); "
        f"print('LOADED', [name for name in {HEAVY!r} if name in sys.modules], status)"
    )
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=os.sep)
    assert done.stdout.splitlines()[-1:] == ["LOADED [] 0"], done.stderr


def test_summaries_are_those_of_the_commands() -> None:
    assert TARGET.read_text("utf-8") == render(), "run `python docs/command_summaries.py`"
