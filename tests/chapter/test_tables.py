"""The page for those who come from TPU-MLIR: its options, passes and interfaces are what the code has."""

from __future__ import annotations

import pkgutil
import re
import shlex
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from tpuc.registry import Registry
from tpuc_driver.cli.aliases import command_name
from tpuc_driver.cli.summaries import BUILT_IN

from tests.families import each

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tpu-mlir.md").read_text("utf-8")
RUNS = [
    command["run"]
    for scene in tomllib.loads((Path(__file__).parent / "commands.toml").read_text("utf-8"))["scene"]
    for command in scene["command"]
]


def section(head: str) -> str:
    """What stands below a headline, up to the next one."""
    return re.split(r"^#+ ", PAGE.partition(f"# {head}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of a table."""
    lines = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line] for line in lines[1:]]


def quoted(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def command(name: str) -> click.Command:
    found: Any = import_module(BUILT_IN[name]).command if name in BUILT_IN else Registry().get("tpuc.commands", name)
    return found


SCRIPTS = re.findall(r"^### (\w+): `tpuc (\w+)`$", PAGE, re.MULTILINE)


def test_scripts_are_all_there() -> None:
    assert [script for script, _ in SCRIPTS] == [
        *("model_transform", "run_calibration", "run_qtable", "model_deploy", "model_runner", "model_eval"),
        *("npz_tool", "visual"),
    ]


@each(("script", "name"), SCRIPTS)
def test_options_are_those_of_the_command(script: str, name: str) -> None:
    assert command_name(f"{script}.py") == command_name(script) == name
    found = command(name)
    if isinstance(found, click.Group):
        known = {*found.commands}
    else:
        known = {spelling for parameter in found.params for spelling in parameter.opts}
    for printed, here, _ in rows(section(f"{script}: `tpuc {name}`")):
        assert quoted(printed)[0].replace("_", "-") == quoted(here)[0]
        assert quoted(here)[0] in known


OURS = {"--label_offset"}
"""Options of the commands in the list that no book prints."""
REFUSED = {"--post_handle_type"}


def test_the_options_of_the_tables_are_those_that_are_run() -> None:
    used: dict[str, set[str]] = {}
    for run in RUNS:
        script, *words = shlex.split(run)
        if "--" not in words:
            options = {word.replace("_MLIR", "_mlir") for word in words if re.match(r"-+[a-z]", word)}
            used.setdefault(script.removesuffix(".py"), set()).update(options if script != "npz_tool.py" else words[:1])
    for script, name in SCRIPTS:
        told = {quoted(row[0])[0] for row in rows(section(f"{script}: `tpuc {name}`"))}
        assert used[script] - OURS == told - REFUSED, script


def test_passes_have_both_names() -> None:
    registry = Registry()
    for printed, here, _ in rows(section("Passes")):
        for name in (*quoted(printed), *quoted(here)):
            assert registry.get("tpuc.passes", name).name == name


def test_interfaces_lead_to_objects() -> None:
    names = [name for row in rows(section("Interfaces")) for name in quoted(row[1])]
    assert len(names) > 10
    for name in names:
        assert pkgutil.resolve_name(name) is not None
