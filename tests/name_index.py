"""`pytest -k NAME` imports only the files whose tests had such a name when they were collected last.

Names of tests come from their files, from what lies beside them, and from the names of our modules (ops, say): a change
of any of these makes the index worthless, and everything is collected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
KEY = "tpuc/names"


class NameIndex:
    """The names in each test file, kept in pytest's cache."""

    def __init__(self, config: pytest.Config) -> None:
        assert config.cache is not None
        self._cache = config.cache
        self._words = words(str(config.getoption("keyword") or ""))
        self._stamp = stamp(ROOT)
        cache: Any = self._cache
        kept: dict[str, Any] = cache.get(KEY, {})
        self._names: dict[str, list[str]] = kept["names"] if kept.get("stamp") == self._stamp else {}

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if not self._words or not collection_path.name.startswith("test_"):
            return None
        known = self._names.get(str(collection_path))
        if known is None or known[0] != state(collection_path):
            return None
        return True if not any(word in known[1] for word in self._words) else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        found: dict[str, set[str]] = {}
        for item in items:
            found.setdefault(str(item.path), set()).update(names_of(item))
        for path, names in found.items():
            self._names[path] = [state(Path(path)), "\n".join(sorted(names))]
        if found:
            self._cache.set(KEY, {"stamp": self._stamp, "names": self._names})


def words(expression: str) -> list[str]:
    """What one of a test's names must have in it; nothing is sure of an expression with `not`."""
    found = [word.lower() for word in re.findall(r"[^\s()]+", expression)]
    return [] if "not" in found else [word for word in found if word not in ("and", "or")]


def names_of(item: pytest.Item) -> Iterator[str]:
    """What `-k` looks at, in lower case: names of the file, its class, the test and its marks."""
    for node in item.listchain():
        yield node.name.lower()
    yield from (str(name).lower() for name in item.listextrakeywords())
    yield from (mark.name.lower() for mark in item.iter_markers())


def state(path: Path) -> str:
    """What changes when a file is written."""
    found = path.stat()
    return f"{found.st_mtime_ns} {found.st_size}"


def stamp(root: Path) -> str:
    """What changes when names may come from elsewhere: the names of our modules, and what helpers of tests hold."""
    modules = [path for folder in ("core", "plugins", "packages") for path in (root / folder).rglob("*.py")]
    helpers = [path for path in (root / "tests").rglob("*.py") if not path.name.startswith("test_")]
    lines = [*map(str, modules), *(f"{path} {state(path)}" for path in helpers)]
    return sha256("\n".join(sorted(lines)).encode()).hexdigest()
