"""Golden texts as pytest items. In a `conftest.py`: `from tpuc_testing.golden_plugin import pytest_collect_file`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tpuc_testing.golden import GoldenMismatch, run_golden

__all__ = ["GoldenFile", "GoldenItem", "pytest_collect_file"]


class GoldenItem(pytest.Item):
    """The check of one file."""

    def runtest(self) -> None:
        """Run it."""
        run_golden(self.path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """The sentence alone, without a traceback, when it is about the output."""
        if isinstance(excinfo.value, GoldenMismatch):
            return f"{self.path.name}: {excinfo.value}"
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it is."""
        return self.path, 0, self.name


class GoldenFile(pytest.File):
    """A file with RUN and CHECK lines."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item."""
        yield GoldenItem.from_parent(self, name="golden")  # pyright: ignore[reportUnknownMemberType]  # untyped keywords


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect `.mlir` files that have a RUN line; others are inputs of tests."""
    if file_path.suffix != ".mlir" or "RUN:" not in file_path.read_text(encoding="utf-8"):
        return None
    return GoldenFile.from_parent(parent, path=file_path)  # pyright: ignore[reportUnknownMemberType]  # likewise
