"""The `onnx` package's own single-operator cases: all pass but those listed with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest

from tests.frontends.onnx.backend import Case, cases, first_cases, run
from tests.frontends.onnx.networks import registry

EXCLUSIONS = Path(__file__).with_name("backend_exclusions.txt")
LISTED_FOR = "1.23"
BATCHES = 8


def exclusions() -> dict[str, str]:
    """The reason why each listed case is not expected to pass."""
    found: dict[str, str] = {}
    reason = ""
    for line in EXCLUSIONS.read_text().splitlines():
        if line.startswith("# "):
            reason = line.removeprefix("# ")
        elif line:
            assert line not in found, f"{line} is listed twice"
            found[line] = reason
    return found


def first_of_each_operator() -> list[Case]:
    """One that is not listed where there is one."""
    listed = exclusions()
    found: dict[str, Case] = {}
    for case in sorted(first_cases(listed), key=lambda case: case.name in listed):
        found.setdefault(case.op_type, case)
    return [*found.values()]


def rest(batch: int) -> list[Case]:
    """The other cases, in batches that run beside each other."""
    first = {case.name for case in first_of_each_operator()}
    return [case for case in cases() if case.name not in first][batch::BATCHES]


def check(chosen: Sequence[Case], folder: Path) -> None:
    listed, offers = exclusions(), registry()
    outcomes = {case.name: run(case, folder, offers) for case in chosen}
    crashed = [f"{name}: {outcome.detail}" for name, outcome in outcomes.items() if outcome.kind == "crashed"]
    assert not crashed, "only sentences may end an import"
    unexpected = [
        f"{name}: {outcome.kind}: {outcome.detail}"
        for name, outcome in outcomes.items()
        if (outcome.kind == "passed") == (name in listed)
    ]
    assert not unexpected, "list no case that passes, and no new one"


@pytest.mark.skipif(not onnx.__version__.startswith(LISTED_FOR), reason=f"the list is for onnx {LISTED_FOR}")
def test_one_case_of_every_operator_passes_that_is_not_listed(tmp_path: Path) -> None:
    chosen = first_of_each_operator()
    assert len(chosen) >= 190
    check(chosen, tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not onnx.__version__.startswith(LISTED_FOR), reason=f"the list is for onnx {LISTED_FOR}")
def test_the_list_is_current() -> None:
    listed, names = exclusions(), {case.name for case in cases()}
    assert listed.keys() <= names
    assert len(names) - len(listed) >= 1740


@pytest.mark.slow
@pytest.mark.skipif(not onnx.__version__.startswith(LISTED_FOR), reason=f"the list is for onnx {LISTED_FOR}")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_everything_passes_that_is_not_listed(batch: int, tmp_path: Path) -> None:
    check(rest(batch), tmp_path)
