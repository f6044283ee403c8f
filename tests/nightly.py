"""Tests that run at night: those in `nightly.toml`, with the reason why quick ones are enough, and most comparisons.

Some of them take turns: they also run with one of the values of `--interop-third`.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from pathlib import Path
from zlib import crc32

import pytest

LIST = Path(__file__).with_name("nightly.toml")


@functools.cache
def listed(kind: str = "family") -> dict[str, str]:
    """The reason for each test, or for each of its cases; of the kind `turn` for those that take turns."""
    families = tomllib.loads(LIST.read_text("utf-8"))[kind]
    return {f"tests/{name}": family["why"] for family in families for name in family["tests"]}


def mark(items: Iterable[pytest.Item], third: int | None = None) -> None:
    """Mark what is listed, by the name of a test or of one of its cases, but for tests whose turn it is."""
    for item in items:
        if why := _reason(item, "family"):
            item.add_marker(pytest.mark.slow(why))
        elif why := _reason(item, "turn"):
            item.add_marker(pytest.mark.turn)
            if third is None or _third_of(item) != third:
                item.add_marker(pytest.mark.slow(why))


def _reason(item: pytest.Item, kind: str) -> str | None:
    reasons = listed(kind)
    return reasons.get(item.nodeid) or reasons.get(item.nodeid.partition("[")[0])


def _third_of(item: pytest.Item) -> int:
    return crc32(item.nodeid.encode()) % 3


def is_in_third(item: pytest.Item, third: int) -> bool:
    """Of comparisons with the vendor's tools and tests of trained networks one in three is; other tests always are."""
    takes_turns = item.get_closest_marker("interop") is not None or "model_data" in getattr(item, "fixturenames", ())
    return not takes_turns or _third_of(item) == third
