"""What other services read: the workflow, the action and the hook name commands and options that are there."""

from __future__ import annotations

import io
import re
import tarfile
import tomllib
import zipfile
from pathlib import Path

import click
import pytest
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


def test_the_action_names_the_chips_that_are_there() -> None:
    text = (ROOT / "action.yml").read_text("utf-8")
    (named,) = re.findall(r"^  chip:\n    description: (.*);", text, re.MULTILINE)
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["tpuc.chips"]
    assert sorted(re.split(", | or ", named)) == sorted(points)


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


def test_every_place_names_the_same_repository() -> None:
    address = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]
    places = [ROOT / "mkdocs.yml", ROOT / ".conda" / "recipe.yaml", *(ROOT / "packages").glob("*/pyproject.toml")]
    assert [path for path in places if address not in path.read_text("utf-8")] == []


def test_the_conda_recipe_has_the_dependencies_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    recipe = (ROOT / ".conda" / "recipe.yaml").read_text("utf-8")
    run = recipe[recipe.index("  run:") : recipe.index("tests:")]
    found = set(re.findall(r"^    - (?!python >)(\S+) >=(\S+)$", run, re.MULTILINE))
    wanted = {tuple(one.split(">=")) for one in project["dependencies"]}
    assert {(name.removeprefix("python-"), least) for name, least in found} == wanted
    assert f'version: "{project["version"]}"' in recipe


def test_packages_beside_the_compiler_can_be_published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import hatchling.build

    wrong: list[str] = []
    for folder in sorted((ROOT / "packages").iterdir()):
        monkeypatch.chdir(folder)
        wheel, source = hatchling.build.build_wheel(str(tmp_path)), hatchling.build.build_sdist(str(tmp_path))
        with zipfile.ZipFile(tmp_path / wheel) as archive:
            names = archive.namelist()
            metadata = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode()
        with tarfile.open(fileobj=io.BytesIO((tmp_path / source).read_bytes())) as archive:
            members = [name.partition("/")[2] for name in archive.getnames()]
        said = r"^(License-Expression|Project-URL|Summary|Description-Content-Type): "
        stated = re.findall(said, metadata, re.MULTILINE)
        has_readme = metadata.partition("\n\n")[2].startswith("# ")
        has_license = any(name.endswith("licenses/LICENSE") for name in names) and "LICENSE" in members
        if len(set(stated)) < 4 or not has_readme or not has_license or "pyproject.toml" not in members:
            wrong.append(folder.name)
    assert wrong == []


def test_notebooks_open_in_colab() -> None:
    address = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"]
    place = address.replace("https://", "https://colab.research.google.com/").replace("github.com/", "github/", 1)
    lacking = [
        path.name
        for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
        if f"]({place}/blob/main/docs/notebooks/{path.name})" not in path.read_text("utf-8")
    ]
    assert lacking == []
