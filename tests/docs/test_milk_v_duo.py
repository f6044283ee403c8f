"""The page on the way to a Milk-V Duo: its commands for this machine run one after the other, as they are printed."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.chips.command_line import tpuc

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "chips" / "milk-v-duo.md"
DIGITS = ROOT / "examples" / "digits"

pytestmark = pytest.mark.chip("cv180x")


def commands(page: Path) -> list[str]:
    """Those of its blocks `sh`, in order."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def run_page(folder: Path) -> None:
    """Leaves `digits.cvimodel`, `image.npz`, `image.bin` and `expected.npz` in the folder."""
    for name in ("digits.onnx", "digits_calib.npz", "digits_eval.npz"):
        shutil.copy(DIGITS / name, folder)
    for command in commands(PAGE):
        program, *words = shlex.split(command)
        if program == "tpuc":
            done = tpuc(*words, cwd=folder)
        else:
            assert program == "python", command
            done = subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stderr}"


def test_its_commands_run(tmp_path: Path) -> None:
    run_page(tmp_path)
    with np.load(tmp_path / "expected.npz") as expected, np.load(tmp_path / "digits_eval.npz") as images:
        assert expected["probabilities"].argmax() == images["y"][0]
    assert (tmp_path / "image.bin").stat().st_size == 8 * 8 * 4
