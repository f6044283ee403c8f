"""Tests that are slow by the list in `nightly.toml`, which says of each family why its quick tests are enough."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest

LIST = Path(__file__).with_name("nightly.toml")


@functools.cache
def listed() -> dict[str, str]:
    """The reason for each test, or for each of its cases."""
    families = tomllib.loads(LIST.read_text("utf-8"))["family"]
    return {f"tests/{name}": family["why"] for family in families for name in family["tests"]}


def mark(items: Iterable[pytest.Item]) -> None:
    """Mark what is listed, by the name of a test or of one of its cases."""
    reasons = listed()
    for item in items:
        why = reasons.get(item.nodeid) or reasons.get(item.nodeid.partition("[")[0])
        if why is not None:
            item.add_marker(pytest.mark.slow(why))
