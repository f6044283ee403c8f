"""The `onnx` package's own single-operator cases: all pass but those listed with a reason."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.frontends.onnx.backend import cases, run
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


@pytest.mark.skipif(not onnx.__version__.startswith(LISTED_FOR), reason=f"the list is for onnx {LISTED_FOR}")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_everything_passes_that_is_not_listed(batch: int, tmp_path: Path) -> None:
    listed, offers = exclusions(), registry()
    chosen = cases()[batch::BATCHES]
    outcomes = {case.name: run(case, tmp_path, offers) for case in chosen}
    crashed = [f"{name}: {outcome.detail}" for name, outcome in outcomes.items() if outcome.kind == "crashed"]
    assert not crashed, "only sentences may end an import"
    unexpected = [
        f"{name}: {outcome.kind}: {outcome.detail}"
        for name, outcome in outcomes.items()
        if (outcome.kind == "passed") == (name in listed)
    ]
    assert not unexpected, "list no case that passes, and no new one"


@pytest.mark.skipif(not onnx.__version__.startswith(LISTED_FOR), reason=f"the list is for onnx {LISTED_FOR}")
def test_every_listed_case_exists_and_most_are_not_listed() -> None:
    listed, names = exclusions(), {case.name for case in cases()}
    assert listed.keys() <= names
    assert len(names) - len(listed) >= 1740
