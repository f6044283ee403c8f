"""Fixtures of the core's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.cli import CommandLine


@pytest.fixture
def tpuc(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command line in an empty folder, with no plugins installed."""
    monkeypatch.chdir(tmp_path)
    result = CommandLine(tmp_path, capsys, monkeypatch)
    result.install()
    return result
