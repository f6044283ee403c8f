"""What is listed as slow is marked, and comparisons are shared out; `tests/contract/test_documents` checks the list."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests import nightly


def test_every_comparison_and_trained_network_is_in_one_third_and_other_tests_in_all() -> None:
    def item(number: int, mark: str, *fixtures: str) -> Any:
        return SimpleNamespace(
            nodeid=f"a.py::t[{number}]",
            fixturenames=fixtures,
            get_closest_marker=lambda name: name == mark or None,
        )

    for number in range(30):
        for one in (item(number, "interop"), item(number, "", "model_data")):
            assert sum(nightly.is_in_third(one, third) for third in range(3)) == 1
        assert all(nightly.is_in_third(item(number, "slow"), third) for third in range(3))
    assert {number for number in range(30) if nightly.is_in_third(item(number, "interop"), 0)}


def test_cases_of_listed_tests_are_marked_and_those_that_take_turns_in_two_thirds(monkeypatch: Any) -> None:
    lists = {
        "family": {"tests/a.py::one": "a reason", "tests/a.py::two[x]": "another"},
        "turn": {f"tests/a.py::turn[{number}]": "a reason" for number in range(30)},
    }
    monkeypatch.setattr(nightly, "listed", lists.__getitem__)

    def marked(names: list[str], third: int | None = None) -> list[str]:
        found: list[str] = []

        def item(name: str) -> Any:
            def add_marker(mark: Any) -> None:
                if mark.name == "slow":
                    found.append(name)

            return SimpleNamespace(nodeid=f"tests/a.py::{name}", add_marker=add_marker)

        nightly.mark([item(name) for name in names], third)
        return found

    assert marked(["one", "one[y]", "two[x]", "two[y]", "three"], 0) == ["one", "one[y]", "two[x]"]
    turns = [f"turn[{number}]" for number in range(30)]
    assert marked(turns) == turns
    assert sorted(name for third in range(3) for name in marked(turns, third)) == sorted(turns * 2)
