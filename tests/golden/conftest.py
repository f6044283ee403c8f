"""Golden texts: every `.mlir` file here with a RUN line is a test, which may need the chip that the line names."""

from __future__ import annotations

import re

import pytest
from tpuc_testing.golden_plugin import GoldenItem, pytest_collect_file

__all__ = ["pytest_collect_file"]


def pytest_itemcollected(item: pytest.Item) -> None:
    """What is run for a chip needs that chip's package."""
    if isinstance(item, GoldenItem):
        for chip in set(re.findall(r"RUN: .*--chip (\w+)", item.path.read_text(encoding="utf-8"))):
            item.add_marker(pytest.mark.chip(chip))
