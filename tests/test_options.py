"""The options of the test run say what is wrong with them."""

from __future__ import annotations

import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytest_plugins = ("pytester",)


@pytest.mark.parametrize(("option", "needed"), [("--model-data", "data"), ("--oracle", "run_file.py")])
def test_folder_without_the_expected_content_is_refused(option: str, needed: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", option, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert f"{option} {tmp_path}: no '{needed}' there" in done.stderr
    assert done.returncode == pytest.ExitCode.USAGE_ERROR


def test_a_connection_to_the_network_is_refused() -> None:
    with socket.socket() as connection, pytest.raises(AssertionError, match=r"a test tried to reach 192\.0\.2\.1"):
        connection.connect(("192.0.2.1", 80))


@pytest.mark.parametrize(
    ("allowed", "workers"),
    [
        (True, ()),
        (False, ("-n", "1")),
        *(pytest.param(*run, marks=pytest.mark.slow) for run in ((True, ("-n", "1")), (False, ()))),
    ],
)
def test_a_skip_without_a_reason_in_the_list_fails_the_run(
    allowed: bool, workers: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "allowed.toml").write_text("skip = []\n")
    strict = [] if allowed else [str(tmp_path / "allowed.toml")]
    command = [sys.executable, "-m", "pytest", "-q", "tests/tools/images/test_measuring.py", *workers, "--strict-skips"]
    done = subprocess.run([*command, *strict], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == (0 if allowed else 1), done.stdout
    assert ("skips that are not allowed" in done.stdout) is not allowed
    assert ("test_measuring.py" in done.stdout.partition("not allowed")[2]) is not allowed


@pytest.mark.parametrize(
    ("options", "chosen"), [((), 1), (("--slow",), 2), (("-m", "slow"), 1), (("-k", "long"), 1), (("-k", "quick"), 1)]
)
def test_slow_tests_run_when_they_are_asked_for(
    options: tuple[str, ...], chosen: int, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest("from tests.conftest import pytest_addoption, pytest_collection_modifyitems")
    pytester.makeini("[pytest]\nmarkers = slow: takes long")
    pytester.makepyfile("import pytest\n\n@pytest.mark.slow\ndef test_long(): pass\n\ndef test_quick(): pass\n")
    result = pytester.runpytest_inprocess("-p", "no:xdist", *options)
    result.assert_outcomes(passed=chosen, deselected=2 - chosen)


def test_every_allowed_skip_says_why() -> None:
    entries = tomllib.loads((ROOT / "tests" / "allowed_skips.toml").read_text("utf-8"))["skip"]
    assert all(set(entry) == {"reason", "why"} and len(entry["why"]) > 20 for entry in entries)
