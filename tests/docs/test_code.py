"""Python code on the pages for users runs from top to bottom, and shell commands there do what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("python.md",)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.filterwarnings("default")
def test_the_code_of_a_page_runs(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    blocks = BLOCK.findall((ROOT / "docs" / name).read_text("utf-8"))
    exec("\n".join(blocks), {"__name__": name})  # noqa: S102  # our own page
    told = capsys.readouterr().out
    assert "198 of 200 right" in told
    assert "no input named 'imge'. Did you mean 'image'?" in told
