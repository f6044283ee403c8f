"""Every pass has a golden text."""

from __future__ import annotations

import re
from pathlib import Path

from tests.contract.tree import entry_points


def test_every_pass_is_run_by_a_golden_text() -> None:
    texts = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("*.mlir")]
    lines = [line for text in texts for line in text.splitlines() if "RUN:" in line]
    run = {name for line in lines for name in re.findall(r"--pass ([a-z0-9-]+)", line)}
    assert sorted(set(entry_points()["tpuc.passes"]) - run) == []
