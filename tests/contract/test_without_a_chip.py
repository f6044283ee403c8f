"""Chips are plugins: take the folders and entry points of all or one away, and everything else still passes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.contract.tree import entry_points
from tests.families import each

ROOT = Path(__file__).resolve().parents[2]
CHIPS = sorted(path.name for path in (ROOT / "plugins" / "chips").iterdir() if (path / "chip.py").exists())
FOLDERS = ("core", "plugins", "packages", "tests", "examples", "docs", "benchmarks")
OF_OTHER_CHIPS = ("test_networks.py", "test_pipeline.py")
"""What is run of another chip's tests, none of which may name this one: the way from a network to its file."""
ABOUT_THE_WHOLE = (
    *("contract", "core/test_doctor.py", "docs/test_pages.py", "third_party/test_clean_install.py"),
    *("third_party/test_new.py", "third_party/test_strays.py"),
)


def _copy_without(packages: Sequence[str], target: Path) -> None:
    """The tree without the packages, their entry points and their own tests."""
    ignored = shutil.ignore_patterns("__pycache__", *packages)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, target / folder, ignore=ignored)
    for place in ("chips", "interop"):
        for package in packages:
            shutil.rmtree(target / "tests" / place / _chip(package), ignore_errors=True)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, target / file.name)
    lines = (ROOT / "pyproject.toml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not any(f'"{package}.' in line for package in packages)]
    (target / "pyproject.toml").write_text("".join(kept))


def _chip(package: str) -> str:
    return package.removeprefix("tpuc_")


def _with_dependents(package: str) -> list[str]:
    """The package, and those of chips that take its lowerings or are made of it."""
    texts = {one: (ROOT / "plugins" / "chips" / one / "chip.py").read_text() for one in CHIPS if one != package}
    uses = (f'"{_chip(package)}"', f"from {package}.")
    return [package, *(one for one, text in texts.items() if any(use in text for use in uses))]


def _names_without(packages: Sequence[str]) -> list[str]:
    """The chips of all packages but these; a package may have several."""
    chips = entry_points()["tpuc.chips"].items()
    return sorted(name for name, place in chips if place.partition(".")[0] not in packages)


def _left_out(tests: Path) -> list[Path]:
    """Most tests of the other chips, and those that look at the installed distribution or at pages about the chips."""
    others = [file for folder in (tests / "chips").iterdir() if folder.is_dir() for file in folder.rglob("test_*.py")]
    left_out = [file for file in others if file.name not in OF_OTHER_CHIPS]
    return [*(tests / place for place in ABOUT_THE_WHOLE), *left_out]


def _metadata(tree: Path) -> None:
    """What an editable install would leave for the registry to find."""
    text = (tree / "pyproject.toml").read_text()
    folder = tree / "metadata" / "tpuc-0.1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tpuc\nVersion: 0.1.0\n")
    entries = re.findall(r'^\[project\.entry-points\."([^"]+)"\]\n((?:[^\[\n].*\n)*)', text, re.MULTILINE)
    body = "".join(f"[{group}]\n{lines.replace(chr(34), '')}\n" for group, lines in entries)
    (folder / "entry_points.txt").write_text(body)


@each("package", CHIPS)
def test_tests_of_other_chips_do_not_name_it(package: str) -> None:
    chip, gone = _chip(package), {_chip(one) for one in _with_dependents(package)}
    folders = [folder for place in ("chips", "interop") for folder in (ROOT / "tests" / place).iterdir()]
    others = [folder for folder in folders if folder.is_dir() and folder.name not in gone]
    files = [file for folder in others for file in folder.rglob("*.py")]
    assert files
    assert [
        file for file in files if re.search(rf"(import|from) \S*\b(tpuc_)?{chip}\b|chip=.{chip}\b", file.read_text())
    ] == []


ONCE = """
import os
import re
from pathlib import Path

import pytest

_FILE = Path(os.environ["PASSED_BEFORE"])
_GONE = re.compile(os.environ["NEEDS_A_CHIP"], re.IGNORECASE)


def pytest_collection_modifyitems(config, items):
    before = set(_FILE.read_text().splitlines()) if _FILE.exists() else set()
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in before])
    items[:] = [item for item in items if item.nodeid not in before]


def pytest_runtest_logreport(report):
    if report.when == "call" and report.passed:
        with _FILE.open("a") as file:
            file.write(report.nodeid + "\\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed and _GONE.search("\\n".join([str(report.longrepr), *(text for _, text in report.sections)])):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, "asks for a chip that was taken away")
    return report
"""
"""A pytest plugin that leaves out what has passed in an earlier run, notes what passes in this one, and lets tests go
that ask for a chip that is not there. Only tests may: `test_architecture` finds what names a chip elsewhere.
"""


def _asks_for(packages: Sequence[str]) -> str:
    """A pattern of what is said where one of the packages is missed."""
    gone = [name for name, place in entry_points()["tpuc.chips"].items() if place.partition(".")[0] in packages]
    folders = "|".join(map(_chip, packages))
    return rf"no chip named '({'|'.join(gone)})'|No module named 'tests\.(chips|interop)\.({folders})"


class Trees:
    """Copies of the tree without some chips, in which tests are run that have not passed in an earlier one.

    All copies lie in one place one after the other, so that files of the same date are compiled to bytecode once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def forget(self) -> None:
        """Let what has passed run again."""
        (self._folder / "passed.txt").unlink(missing_ok=True)

    def run(self, packages: Sequence[str], tests: Sequence[str]) -> str:
        """Assert that tests pass without these packages; returns what pytest said."""
        tree = self._folder / "tree"
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir()
        _copy_without(packages, tree)
        _metadata(tree)
        (tree / "metadata" / "run_once.py").write_text(ONCE)
        kinds = [tree / "plugins" / kind for kind in ("frontends", "ops", "passes", "chips", "tools")]
        paths = os.pathsep.join(map(str, [tree / "metadata", tree / "core", *kinds]))
        passed = str(self._folder / "passed.txt")
        environment = {**os.environ, "PYTHONPATH": paths, "PASSED_BEFORE": passed}
        environment["NEEDS_A_CHIP"] = _asks_for(packages)
        environment["PYTHONPYCACHEPREFIX"] = str(self._folder / "bytecode")
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        names = [sys.executable, "-c", "from tpuc.registry import Registry; print(*Registry().names('tpuc.chips'))"]
        left = subprocess.run(names, cwd=tree, env=environment, capture_output=True, text=True, check=True)
        assert left.stdout.split() == _names_without(packages)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "run_once", *tests]
        command += ["-m", "not interop and not slow", *(f"--ignore={path}" for path in _left_out(tree / "tests"))]
        done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
        return done.stdout


QUICK = (
    *("tests/core/test_cli_commands.py", "tests/core/test_support_coverage.py", "tests/tools/check/test_check.py"),
    *("tests/third_party/test_toy_files.py", "tests/frontends/tflite/test_chips.py", "tests/models/test_digits.py"),
)
"""Tests that ask which chips there are, or have one of their own."""


GONE = """
import sys


class Gone:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Gone())
"""
"""A pytest plugin after which packages cannot be imported."""


def test_chips_are_looked_up_nowhere_else(tmp_path: Path) -> None:
    """The slow tests below in little: some tests in this tree, where no chip is named and none can be imported."""
    lines = (ROOT / "pyproject.toml").read_text().splitlines(keepends=True)
    kept = [line for line in lines if not any(f'"{package}.' in line for package in CHIPS)]
    (tmp_path / "pyproject.toml").write_text("".join(kept))
    _metadata(tmp_path)
    (tmp_path / "metadata" / "gone.py").write_text(GONE.replace("{packages}", repr(set(CHIPS))))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "metadata")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "gone", *QUICK]
    done = subprocess.run(
        [*command, "-m", "not interop and not slow"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert re.search(r"[0-9]{2} passed", done.stdout)


@pytest.mark.slow
def test_another_chip_compiles_without_each(tmp_path: Path) -> None:
    """The way from a network to its file, which tests of damaged files begin with."""
    trees = Trees(tmp_path)
    for place, package in enumerate(CHIPS):
        trees.forget()
        gone = _with_dependents(package)
        others = [other for other in CHIPS if other not in gone]
        way = f"tests/chips/{_chip(others[place % len(others)])}/test_pipeline.py"
        assert re.search(r"[1-9][0-9]* passed", trees.run(gone, [way, "-k", "refused"]))


@pytest.mark.slow
def test_everything_else_passes_without_any_chip_and_without_each(tmp_path: Path) -> None:
    """What passes without any chip does not need the one that is missing: it is not run again for each."""
    trees = Trees(tmp_path)
    for packages in (CHIPS, *map(_with_dependents, CHIPS)):
        trees.run(packages, ["tests"])
