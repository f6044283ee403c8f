"""The list of the vendor's options is that of its scripts."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from tpuc_driver.cli.foreign import Script, scripts

pytestmark = pytest.mark.interop


TODAYS = [script for script in scripts().values() if script.name != "run_qtable"]
"""Version 1.30 has no run_qtable."""


@pytest.mark.parametrize("script", TODAYS, ids=lambda script: script.name)
def test_the_list_is_what_the_script_says_of_itself(oracle_dir: Path, script: Script) -> None:
    tool = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer") / "bin" / script.name
    if not tool.exists():
        pytest.skip(f"no {tool}: run {oracle_dir.name}/setup.sh")
    done = subprocess.run([str(tool), "--help"], capture_output=True, text=True, check=True, timeout=120)
    usage = done.stdout.partition("\noptions:")[2].partition("\navoid options")[0]
    theirs = set(re.findall(r"^  .*?--(\w+)", usage, re.MULTILINE)) | set(re.findall(r", --(\w+)", usage))
    assert theirs - {"help"} == {answer.option for answer in script.answers.values()}
