"""What the documents tell a reader to type or to write is true."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tests import nightly
from tests.contract import tree
from tests.contract.tree import ROOT, offenders, parsed, project, show

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


def names_in(path: Path) -> set[str]:
    """The tests in a file, those of classes behind the name of the class."""
    found: set[str] = set()
    for node in parsed(path).body:
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def is_there(name: str) -> bool:
    """Is there such a test? Those that a class inherits are not looked up."""
    file, _, test = name.partition("[")[0].partition("::")
    path = ROOT / file
    return path.is_file() and (
        test in names_in(path) or ("::" in test and test.split("::")[0] in path.read_text("utf-8"))
    )


def test_every_test_in_the_list_of_nightly_tests_exists_and_has_a_reason() -> None:
    stored = tomllib.loads(nightly.LIST.read_text("utf-8"))
    kinds = [nightly.listed("family"), nightly.listed("turn")]
    assert not kinds[0].keys() & kinds[1].keys()
    for kind, listed in zip(("family", "turn"), kinds, strict=True):
        assert [name for name in listed if not is_there(name)] == []
        assert all(len(why) > 10 for why in listed.values())
        assert len(listed) == sum(len(family["tests"]) for family in stored[kind])
