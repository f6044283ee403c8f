"""The wheel holds exactly our packages, and what it registers is there."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from tests.contract.tree import CORE, PLUGINS, ROOT, core_packages, entry_points, plugin_packages, project
from tests.families import each

ENTRY_POINTS = [(group, name, target) for group, names in entry_points().items() for name, target in names.items()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    return Path(next(WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])))


@pytest.fixture(scope="module")
def wheel_names(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_top_level_of_the_wheel_is_our_packages_only(wheel_names: list[str]) -> None:
    ours = [package.name for package in (*core_packages(), *plugin_packages())]
    expected = {f"tpuc-{project()['version']}.dist-info", *ours}
    assert {name.split("/")[0] for name in wheel_names} == expected


def test_wheel_holds_every_source_and_data_file(wheel_names: list[str]) -> None:
    roots = [CORE, *(kind for kind in PLUGINS.glob("*") if kind.is_dir())]
    sources = {
        path.relative_to(root).as_posix()
        for root in roots
        for suffix in ("*.py", "*.json", "*.html", "*.toml", "*.mlir", "py.typed")
        for path in root.rglob(suffix)
    }
    assert sources <= set(wheel_names)


def test_the_wheel_is_below_two_point_seven_megabytes(wheel: Path) -> None:
    """Python code is 2.2 MB of it, names and hashes of its 1,500 files 0.3 MB."""
    assert wheel.stat().st_size < 2_700_000


@pytest.mark.slow  # the wheel of a copy of the tree, which has the same bytes, is built in the quick run
def test_two_source_archives_have_the_same_bytes(tmp_path: Path) -> None:
    built = [SdistBuilder(str(ROOT)).build(directory=str(tmp_path / name), versions=["standard"]) for name in "ab"]
    one, other = (Path(next(files)) for files in built)
    assert one.read_bytes() == other.read_bytes()


def dockerfile() -> dict[str, list[str]]:
    """What each instruction of the Dockerfile is given, in its order."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest)
    return found


def test_the_dockerfile_copies_what_the_wheel_is_built_from(wheel: Path, tmp_path: Path) -> None:
    for sources, target in (words.rsplit(" ", 1) for words in dockerfile()["COPY"]):
        for source in sources.split():
            place = tmp_path / target / source if target == "./" else tmp_path / target
            copy = shutil.copytree if (ROOT / source).is_dir() else shutil.copy
            copy(ROOT / source, place)
    built = Path(next(WheelBuilder(str(tmp_path)).build(directory=str(tmp_path), versions=["standard"])))
    assert built.read_bytes() == wheel.read_bytes()


def test_the_dockerfile_starts_from_a_python_that_we_support_and_runs_our_command() -> None:
    given = dockerfile()
    (image,) = given["FROM"]
    version = re.fullmatch(r"python:(3\.\d+)-slim", image)
    assert version is not None
    assert tuple(map(int, version[1].split("."))) >= tuple(map(int, project()["requires-python"][2:].split(".")))
    assert [json.loads(words) for words in given["ENTRYPOINT"]] == [list(project()["scripts"])]
    assert set(given) == {"#", "FROM", "WORKDIR", "COPY", "RUN", "ENTRYPOINT"}


def test_citation_names_this_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {project()['version']}\n" in citation
    assert f"\nlicense: {project()['license']}\n" in citation


@pytest.mark.slow  # as above
def test_two_wheels_have_the_same_bytes(wheel: Path, tmp_path: Path) -> None:
    again = Path(next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])))
    assert again.read_bytes() == wheel.read_bytes()


def test_installed_entry_points_are_those_of_pyproject() -> None:
    distribution = importlib.metadata.distribution("tpuc")
    installed = {(point.group, point.name, point.value) for point in distribution.entry_points}
    assert installed == set(ENTRY_POINTS), "run `pip install -e .` again after editing entry points"


def leads_nowhere(group: str, name: str, target: str) -> list[str]:
    """What is wrong with the object that an entry point names."""
    try:
        found = importlib.metadata.EntryPoint(name, target, group).load()
    except (ImportError, AttributeError) as error:
        return [f"{group}:{name}: {error}"]
    return [] if found is not None else [f"{group}:{name}: {target} is None"]


def test_entry_points_lead_to_objects() -> None:
    assert [said for entry in ENTRY_POINTS for said in leads_nowhere(*entry)] == []
    wrong = [said for target in ("no_such_module:X", "sys:no_such") for said in leads_nowhere("group", "one", target)]
    assert [said.split(": ")[0] for said in wrong] == ["group:one", "group:one"]


@each("arguments", [["--help"], ["--version"], ["plugins", "--help"]], ids=" ".join)
def test_start_up_imports_neither_numpy_nor_a_plugin(arguments: list[str]) -> None:
    script = f"""
import sys
from tpuc_driver.cli import main
sys.argv = ["tpuc", *{arguments!r}]
try:
    status = main()
except SystemExit as end:
    status = end.code
heavy = sorted({{name.split(".")[0] for name in sys.modules}} & {{"numpy", "onnx", "google", "tflite", "PIL"}})
plugins = sorted(name for name in sys.modules if name.startswith("tpuc_") and not name.startswith("tpuc_driver"))
print("LOADED", heavy + plugins, status or 0)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=os.sep)
    assert done.stdout.splitlines()[-1:] == ["LOADED [] 0"], done.stderr


def test_packages_come_from_this_tree() -> None:
    """Another copy of the compiler on the path would make every other test meaningless."""
    for name in ("tpuc", *(package.name for package in plugin_packages())):
        spec = importlib.util.find_spec(name)
        assert spec is not None, f"{name} is not installed: run `pip install -e '.[test]'`"
        assert spec.origin is not None
        assert Path(spec.origin).is_relative_to(ROOT)
