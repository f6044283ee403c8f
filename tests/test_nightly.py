"""The list of slow tests names tests that there are, each once, with a reason."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests import nightly

ROOT = Path(__file__).resolve().parents[1]


def names_in(path: Path) -> set[str]:
    """The tests in a file, those of classes behind the name of the class."""
    found: set[str] = set()
    for node in ast.parse(text(path)).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def text(path: Path) -> str:
    return path.read_text("utf-8")


def is_there(name: str) -> bool:
    """Is there such a test? Those that a class inherits are not looked up."""
    file, _, test = name.partition("[")[0].partition("::")
    path = ROOT / file
    return path.is_file() and (
        test in names_in(path) or ("::" in test and test.split("::")[0] in path.read_text("utf-8"))
    )


def test_every_listed_test_exists_and_has_a_reason() -> None:
    listed = nightly.listed()
    assert [name for name in listed if not is_there(name)] == []
    assert all(len(why) > 10 for why in listed.values())
    families = tomllib.loads(nightly.LIST.read_text("utf-8"))["family"]
    assert len(listed) == sum(len(family["tests"]) for family in families)


def test_every_comparison_is_in_one_third_and_other_tests_in_all() -> None:
    def item(number: int, mark: str) -> Any:
        return SimpleNamespace(nodeid=f"a.py::t[{number}]", get_closest_marker=lambda name: name == mark or None)

    for number in range(30):
        thirds = [nightly.is_in_third(item(number, "interop"), third) for third in range(3)]
        assert sum(thirds) == 1
        assert all(nightly.is_in_third(item(number, "slow"), third) for third in range(3))
    assert {number for number in range(30) if nightly.is_in_third(item(number, "interop"), 0)}


def test_cases_of_listed_tests_are_marked(monkeypatch: Any) -> None:
    monkeypatch.setattr(nightly, "listed", lambda: {"tests/a.py::one": "a reason", "tests/a.py::two[x]": "another"})
    marked: list[str] = []

    def item(name: str) -> Any:
        return SimpleNamespace(nodeid=f"tests/a.py::{name}", add_marker=lambda _: marked.append(name))

    nightly.mark([item(name) for name in ("one", "one[y]", "two[x]", "two[y]", "three")])
    assert marked == ["one", "one[y]", "two[x]"]
