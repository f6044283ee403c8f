"""What other services read: the workflow, the action and the hook name commands and options that are there."""

from __future__ import annotations

import re
from pathlib import Path

import click
from tpuc_check.command import command

ROOT = Path(__file__).resolve().parents[2]


def names_of(checked: click.Command) -> set[str]:
    return {name for one in checked.params if isinstance(one, click.Option) for name in one.opts}


def test_the_action_gives_options_that_check_takes() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    run = text[text.index("run: tpuc check") :]
    assert set(re.findall(r"--[a-z-]+", run)) == {"--chip", "--board", "--quantize"} <= names_of(command)
    inputs = re.findall(r"^  ([a-z]+):$", text[text.index("inputs:") : text.index("runs:")], re.MULTILINE)
    assert [f"inputs.{name} " in text for name in inputs] == [True] * 5


def test_the_hook_runs_check_on_files_of_networks() -> None:
    text = (ROOT / ".pre-commit-hooks.yaml").read_text("utf-8")
    assert re.search(r"^  entry: tpuc check$", text, re.MULTILINE)
    (files,) = re.findall(r"^  files: (.*)$", text, re.MULTILINE)
    assert re.search(files, "models/net.onnx")
    assert not re.search(files, "net.onnx.md")


def test_the_workflow_runs_what_ci_runs() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    assert "run: .ci/run" in text
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    assert (ROOT / ".ci" / "constraints.txt").is_file()
