"""`tpuc new`: what it writes works under the given name, and a name that cannot be used is one sentence."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import tomllib
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tpuc_driver.cli import main
from tpuc_new.writing import FOLDER, files_of, kinds
from tpuc_testing.packages import offers_of

from tests.third_party.distributions import ROOT

KINDS = sorted(kinds())
OTHERS = {
    "op": {"tpuc.importers": ["onnx.my_own"], "tpuc.legalizations": ["any.my_own"]},
    "lowering": {"tpuc.importers": ["onnx.my_own"], "tpuc.lowerings": ["cv183x.my_own"]},
    "kernel": {
        "tpuc.importers": ["onnx.my_own"],
        "tpuc.lowerings": ["bm1684x.my_own"],
        "tpuc.kernels": ["bm1684x.my_own"],
    },
    "chip": {
        "tpuc.boards": ["my-own-kit"],
        "tpuc.lowerings": ["my-own.top"],
        "tpuc.kernels": ["my-own.tpu"],
    },
}
"""What packages register besides the plugin itself."""


def loaded(path: Path) -> ModuleType:
    """A test file, imported."""
    spec = importlib.util.spec_from_file_location(f"written_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_tests(folder: Path, work: Path) -> list[str]:
    """Run every test of a distribution; returns their names."""
    names: list[str] = []
    for path in sorted(folder.glob("tests/test_*.py")):
        for name, test in found_tests(loaded(path)):
            target = work / name
            target.mkdir()
            test(*[target for _ in inspect.signature(test).parameters])  # `tmp_path` is all that they ask for
            names.append(name)
    return names


def found_tests(module: ModuleType) -> list[tuple[str, Callable[..., None]]]:
    """The functions that pytest would run, and the methods of its classes."""
    found = [(name, test) for name, test in inspect.getmembers(module, inspect.isfunction) if name.startswith("test_")]
    for name, definition in inspect.getmembers(module, inspect.isclass):
        if name.startswith("Test"):
            methods = inspect.getmembers(definition(), inspect.ismethod)
            found += [(f"{name}_{method}", test) for method, test in methods if method.startswith("test_")]
    return found


def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything in this process sees a distribution as installed."""
    monkeypatch.syspath_prepend(folder)
    offers = tuple(offers_of(ROOT, folder))
    monkeypatch.setattr("tpuc.registry.registry.installed_offers", lambda: offers)


NEEDS = {"op": "bm1684x", "kernel": "bm1684x", "lowering": "cv183x", "acme_ops": "bm1684x"}
"""The chip of ours that the tests of a kind or of a package run on."""


def needing_chips(names: Iterable[str]) -> list[Any]:
    """Kinds or packages, marked with the chip that each needs."""
    return [pytest.param(name, marks=pytest.mark.chip(NEEDS[name]) if name in NEEDS else ()) for name in sorted(names)]


@pytest.mark.parametrize("package", needing_chips({kind.package for kind in kinds().values()}))
def test_the_tests_of_a_package_that_is_copied_pass(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = FOLDER / "packages" / package
    install(folder, monkeypatch)
    assert run_tests(folder, tmp_path)


@pytest.mark.parametrize("kind", needing_chips(KINDS))
def test_what_is_written_passes_its_tests(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, module = tmp_path / "written", f"my_{kind}_thing"
    assert main(["new", kind, f"my-{kind}-thing", "-o", str(folder)]) == 0
    install(folder, monkeypatch)
    assert run_tests(folder, tmp_path)
    main(["plugins"])
    assert f"my-{kind}-thing" in capsys.readouterr().out
    used = {Path(str(found.__file__)).parent for name, found in sys.modules.items() if name.startswith(f"{module}.")}
    assert used == {folder / module}


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_keeps_the_name_of_the_example(kind: str) -> None:
    row = kinds()[kind]
    texts = files_of(row, "my-own")
    project = tomllib.loads(texts["pyproject.toml"])["project"]
    assert project["name"] == "my-own"
    entry_points = {group: list(names) for group, names in project["entry-points"].items()}
    assert entry_points.pop(row.group) == [row.plugin("my-own")]
    assert entry_points == OTHERS.get(kind, {})
    texts.pop("LICENSE")  # a fixed text, in which such words may be
    everything = "\n".join([*texts, *texts.values()]).lower()
    words = (row.word, row.word.replace("-", "_"), row.word.replace("-", ""), row.package.split("_")[0])
    assert [word for word in words if word in everything] == []


@pytest.mark.parametrize(
    ("kind", "name", "sentence"),
    [
        ("pass", "2fast", "'2fast' cannot name a package; use small letters, digits and dashes, as in drop-relu"),
        ("pass", "../up", "'../up' cannot name a package; use small letters, digits and dashes, as in drop-relu"),
        ("pass", "class", "'class' cannot name a package; use small letters, digits and dashes, as in drop-relu"),
        ("pass", "fold_constants", "has a pass 'fold-constants'; choose another name"),
        ("frontend", "onnx", "has a frontend 'onnx'; choose another name"),
        pytest.param(
            *("chip", "bm1684x", "has a chip 'bm1684x'; choose another name"), marks=pytest.mark.chip("bm1684x")
        ),
        ("op", "top", "has a dialect 'top'; choose another name"),
        ("kernel", "tf-executor", "has a dialect 'tf_executor'; choose another name"),
        ("command", "npz", "has a command 'npz'; choose another name"),
        ("command", "compile", "tpuc has a command 'compile'; choose another name"),
        ("pass", "json", "there is a Python module 'json', so no package can have its name; choose another name"),
    ],
)
def test_a_bad_name_is_one_sentence(
    kind: str, name: str, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "written"
    assert main(["new", kind, name, "-o", str(folder)]) == 2
    assert sentence in capsys.readouterr().err
    assert not folder.exists()


def test_a_folder_that_exists_stays_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new", "pass", "drop-relu", "-o", str(tmp_path)]) == 2
    assert f"{tmp_path} exists; give another folder with -o" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_every_kind_brings_what_a_server_checks_a_license_and_settings_of_the_linter() -> None:
    lacking: list[str] = []
    for name, kind in kinds().items():
        files = files_of(kind, "my-own")
        project = tomllib.loads(files["pyproject.toml"])
        checks = files[".github/workflows/ci.yml"]
        if "Apache License" not in files["LICENSE"] or "ruff" not in project["tool"] or "pytest -q" not in checks:
            lacking.append(name)
    assert lacking == []
