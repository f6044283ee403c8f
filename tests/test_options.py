"""The options of the test run say what is wrong with them."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("option", "needed"), [("--model-data", "data"), ("--oracle", "run_file.py")])
def test_folder_without_the_expected_content_is_refused(option: str, needed: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", option, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"{option} {tmp_path}: no '{needed}' there" in done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


def test_a_connection_to_the_network_is_refused() -> None:
    with socket.socket() as connection, pytest.raises(AssertionError, match=r"a test tried to reach 192\.0\.2\.1"):
        connection.connect(("192.0.2.1", 80))
