"""Python code on README and the pages runs as printed, page by page, on small files of those names.

`python.md` runs in test_code.py, which looks at what it prints; code of how-tos comes from tested files.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.docs.test_commands import PAGES, ROOT, usual
from tests.families import each

BLOCK = re.compile(r"(<!-- include: \S+ -->\n)?^```(?:python|py)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ELSEWHERE = {"docs/python.md": "tests/docs/test_code.py"}
"""Pages whose code another test runs."""


def blocks(page: Path) -> list[str]:
    """The code of a page that is not that of a tested file."""
    return [code for included, code in BLOCK.findall(page.read_text("utf-8")) if not included]


NAMES = [name for page in PAGES if blocks(page) and (name := page.relative_to(ROOT).as_posix()) not in ELSEWHERE]


@pytest.mark.chip("bm1684x")
@each("page", NAMES)
def test_the_code_of_a_page_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    usual(tmp_path)
    shutil.copytree(ROOT / "examples" / "digits", tmp_path / "examples" / "digits")
    exec("\n".join(blocks(ROOT / page)), {"__name__": page})  # noqa: S102  # our own page


def test_pages_with_code_are_known() -> None:
    assert set(NAMES) >= {"README.md", "docs/formats/tpulang.md"}
    assert all(blocks(ROOT / page) for page in ELSEWHERE)
