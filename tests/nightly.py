"""Tests that run at night: those in `nightly.toml`, with the reason why quick ones are enough, and most comparisons."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

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


def is_in_third(item: pytest.Item, third: int) -> bool:
    """Of comparisons with the vendor's tools and tests of trained networks one in three is; other tests always are."""
    takes_turns = item.get_closest_marker("interop") is not None or "model_data" in getattr(item, "fixturenames", ())
    return not takes_turns or crc32(item.nodeid.encode()) % 3 == third
