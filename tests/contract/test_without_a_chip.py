"""A chip is a plugin: take its folder and its entry points away, and everything else still passes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHIPS = sorted(path.name for path in (ROOT / "plugins" / "chips").iterdir() if (path / "chip.py").exists())
FOLDERS = ("core", "plugins", "tests", "examples", "docs", "benchmarks")
OF_OTHER_CHIPS = ("test_networks.py", "test_pipeline.py")
"""What is run of another chip's tests, none of which may name this one: the way from a network to its file."""


def _copy_without(package: str, target: Path) -> None:
    """The tree without the package, its entry points and its own tests."""
    chip = package.removeprefix("tpuc_")
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, target / folder, ignore=shutil.ignore_patterns("__pycache__", package))
    for place in ("chips", "interop"):
        shutil.rmtree(target / "tests" / place / chip, ignore_errors=True)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, target / file.name)
    lines = (ROOT / "pyproject.toml").read_text().splitlines(keepends=True)
    (target / "pyproject.toml").write_text("".join(line for line in lines if f'"{package}.' not in line))


def _left_out(tests: Path) -> list[Path]:
    """Most tests of the other chips, and those that look at the installed distribution."""
    others = [file for folder in (tests / "chips").iterdir() if folder.is_dir() for file in folder.rglob("test_*.py")]
    left_out = [file for file in others if file.name not in OF_OTHER_CHIPS]
    return [tests / "contract", tests / "third_party" / "test_clean_install.py", *left_out]


def _metadata(tree: Path) -> None:
    """What an editable install would leave for the registry to find."""
    text = (tree / "pyproject.toml").read_text()
    folder = tree / "metadata" / "tpuc-0.1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: tpuc\nVersion: 0.1.0\n")
    entries = re.findall(r'^\[project\.entry-points\."([^"]+)"\]\n((?:[^\[\n].*\n)*)', text, re.MULTILINE)
    body = "".join(f"[{group}]\n{lines.replace(chr(34), '')}\n" for group, lines in entries)
    (folder / "entry_points.txt").write_text(body)


@pytest.mark.parametrize("package", CHIPS)
def test_tests_of_other_chips_do_not_name_it(package: str) -> None:
    chip = package.removeprefix("tpuc_")
    folders = [folder for place in ("chips", "interop") for folder in (ROOT / "tests" / place).iterdir()]
    others = [folder for folder in folders if folder.is_dir() and folder.name != chip]
    files = [file for folder in others for file in folder.rglob("*.py")]
    assert files
    assert [file for file in files if re.search(rf"(import|from) \S*{chip}|chip=.{chip}", file.read_text())] == []


@pytest.mark.slow
@pytest.mark.parametrize("package", CHIPS)
def test_everything_else_passes_without_it(package: str, tmp_path: Path) -> None:
    _copy_without(package, tmp_path)
    _metadata(tmp_path)
    kinds = [tmp_path / "plugins" / kind for kind in ("frontends", "ops", "passes", "chips", "tools")]
    paths = [tmp_path / "metadata", tmp_path / "core", *kinds]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    command += ["-m", "not interop and not slow", *(f"--ignore={path}" for path in _left_out(tmp_path / "tests"))]
    names = [sys.executable, "-c", "from tpuc.registry import Registry; print(*Registry().names('tpuc.chips'))"]
    left = subprocess.run(names, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert package.removeprefix("tpuc_") not in left.stdout.split()
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
