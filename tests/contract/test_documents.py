"""What the documents tell a reader to type or to write is true."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.contract import tree
from tests.contract.tree import ROOT, offenders, project, show

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


def dead_links(document: Path) -> list[str]:
    """The links that lead nowhere."""
    return [link for link in LINK.findall(document.read_text()) if not (document.parent / link).exists()]


def test_links_lead_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offenders(DOCUMENTS, dead_links) == []
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    (tmp_path / "one.md").write_text("[here](one.md#top), [there](two.md), [far](https://example.org)")
    assert offenders([tmp_path / "one.md"], dead_links) == ["one.md: two.md"]


def wrong_in_note(path: Path) -> list[str]:
    """What keeps a change note from being one sentence of a known kind."""
    text = path.read_text().strip()
    named = re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name)
    return [
        *([] if named else [f"kinds are {', '.join(KINDS)}"]),
        *([] if text.endswith(".") else ["ends without a full stop"]),
        *(["has several paragraphs"] if "\n\n" in text else []),
    ]


def test_change_notes_are_one_sentence_of_a_known_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert offenders(FRAGMENTS, wrong_in_note) == []
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    (tmp_path / "one.fix.md").write_text("Good.\n")
    (tmp_path / "two.thing.md").write_text("Bad.\n\nWorse")
    said = ["kinds are op, chip, frontend, pass, api, fix, doc", "ends without a full stop", "has several paragraphs"]
    notes = [tmp_path / "one.fix.md", tmp_path / "two.thing.md"]
    assert offenders(notes, wrong_in_note) == [f"two.thing.md: {one}" for one in said]
