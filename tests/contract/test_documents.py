"""What the documents tell a reader to type or to write is true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.contract.tree import ROOT, project, show

KINDS = ("op", "chip", "frontend", "pass", "api", "fix", "doc")
FRAGMENTS = sorted(path for path in (ROOT / "changes").iterdir() if path.name != "README.md")
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changes").glob("README.md")])
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|#)([^)#\s]+)")


def readme_commands() -> list[str]:
    return [line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("python3 -m venv")]


def test_readme_has_one_command_to_run_and_one_to_test() -> None:
    run, test = readme_commands()
    script = Path(shlex.split(run)[-1])
    assert script.parts[0] == "examples"
    assert (ROOT / script).is_file()
    assert test.endswith(".venv/bin/python -m pytest tests -n auto")


def test_extras_in_the_documents_exist() -> None:
    extras = project()["optional-dependencies"]
    for document in DOCUMENTS:
        for names in re.findall(r"(?:tpuc|\.)\[([\w,]+)\]", document.read_text()):
            assert set(names.split(",")) <= set(extras), show(document)


@pytest.mark.parametrize("document", DOCUMENTS, ids=show)
def test_links_lead_somewhere(document: Path) -> None:
    dead = [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]
    assert dead == []


@pytest.mark.parametrize("path", FRAGMENTS, ids=show)
def test_change_note_is_one_sentence_of_a_known_kind(path: Path) -> None:
    assert re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name), f"kinds are {', '.join(KINDS)}"
    text = path.read_text().strip()
    assert text.endswith(".")
    assert "\n\n" not in text
