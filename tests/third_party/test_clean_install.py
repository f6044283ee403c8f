"""A stranger's packages beside our wheel, in an environment that has nothing else."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.third_party.conftest import random_inputs
from tests.third_party.distributions import (
    ACME_OPS,
    BROKEN_PLUGIN,
    DUP_CHIP,
    ROOT,
    TOY_CHIP,
    Environment,
    build_wheel,
    chips_with_acme_cells,
)
from tests.third_party.test_acme_ops import network

DIGITS = ROOT / "examples" / "digits"
CHIPS = chips_with_acme_cells()

pytestmark = pytest.mark.slow
"""Nightly: the same distributions beside this checkout are what the quick tests of this folder use."""


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All wheels by the folder of their distribution; ours is `main`."""
    target = tmp_path_factory.mktemp("wheels")
    folders = (TOY_CHIP, ACME_OPS, BROKEN_PLUGIN, DUP_CHIP)
    return {"main": build_wheel(ROOT, target)} | {folder.name: build_wheel(folder, target) for folder in folders}


class Installed:
    """The environment with our wheel and the toy chip, and the digits files that it compiled before acme-ops came."""

    def __init__(self, work: Path, wheels: dict[str, Path]) -> None:
        self.work = work
        self.environment = Environment(work / "environment")
        self.environment.install(wheels["main"], wheels["toy_chip"])
        self.before = {chip: self.compile_digits(chip, work / "before") for chip in CHIPS}
        self.environment.install(wheels["acme_ops"])

    def compile_digits(self, chip: str, folder: Path, *options: str) -> bytes:
        """The compiled file, made in a folder of its own."""
        data = f"--dataset={DIGITS / 'digits_calib.npz'}"
        return self.compile(DIGITS / "digits.onnx", chip, folder, data, *options)

    def compile(self, model: Path, chip: str, folder: Path, *options: str) -> bytes:
        """`tpuc compile` in int8."""
        folder.mkdir(exist_ok=True)
        target = f"digits.{chip}"
        command = ["compile", str(model), "--chip", chip, "--quantize", "int8", "-o", target, *options]
        done = self.environment.run("tpuc", *command, folder=folder)
        assert done.returncode == 0, done.stderr
        return (folder / target).read_bytes()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory, wheels: dict[str, Path]) -> Installed:
    return Installed(tmp_path_factory.mktemp("clean"), wheels)


def test_our_wheel_holds_only_our_packages(wheels: dict[str, Path]) -> None:
    with zipfile.ZipFile(wheels["main"]) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}
    assert all(re.fullmatch(r"tpuc(_\w+|-[\d.]+\.dist-info)?", name) for name in top), top


def test_everything_that_is_installed_can_be_loaded(installed: Installed) -> None:
    done = installed.environment.run("tpuc", "plugins", "--json", "--check")
    listed = json.loads(done.stdout)
    missing = () if "bm1684x" in CHIPS else ("bm1684x",)  # acme-ops has cells for it
    assert [problem for problem in listed["problems"] if not any(chip in problem for chip in missing)] == []
    assert {row["package"] for row in listed["plugins"]} == {"tpuc", "toy-chip", "acme-ops"}
    assert done.returncode == 0


def test_digits_compiles_for_the_toy_chip_and_runs(installed: Installed) -> None:
    assert installed.before["toy"].startswith(b"TOY\0")
    with np.load(DIGITS / "digits_eval.npz") as data:
        np.savez(installed.work / "images.npz", image=data["x"][:20].reshape(20, 1, 8, 8).astype(np.float32))
        labels = data["y"][:20]
    command = ["run", "--model", "digits.toy", "--input", str(installed.work / "images.npz"), "--output", "scores.npz"]
    done = installed.environment.run("tpuc", *command, folder=installed.work / "before")
    assert done.returncode == 0, done.stderr
    with np.load(installed.work / "before" / "scores.npz") as scores:
        (values,) = scores.values()
    assert np.count_nonzero(values.reshape(20, 10).argmax(axis=1) == labels) >= 19


def test_every_command_that_looks_into_files_knows_the_toy_chip(installed: Installed) -> None:
    disasm, profile = (
        installed.environment.run("tpuc", command, "digits.toy", folder=installed.work / "before")
        for command in ("disasm", "profile")
    )
    assert {"LoadBlock", "Conv", "Requantize", "Store"} <= {line.split()[5] for line in disasm.stdout.splitlines()}
    assert profile.returncode == 0, profile.stderr
    note = profile.stdout.splitlines()[1]
    assert note == "profile 'manual': cycles from the toy's manual; there is no other source"


@pytest.mark.parametrize("chip", CHIPS)
def test_installing_acme_ops_changes_no_byte(chip: str, installed: Installed) -> None:
    assert installed.compile_digits(chip, installed.work / f"after_{chip}") == installed.before[chip]


@pytest.mark.parametrize("chip", CHIPS)
def test_a_network_with_a_foreign_op_compiles(chip: str, installed: Installed) -> None:
    folder = installed.work / f"acme_{chip}"
    folder.mkdir()
    opsets = [onnx.helper.make_opsetid(domain, version) for domain, version in (("", 17), ("acme", 1))]
    onnx.save(onnx.helper.make_model(network(), opset_imports=opsets, ir_version=8), folder / "gelu.onnx")
    np.savez(folder / "samples.npz", **random_inputs(network(), samples=4))
    assert installed.compile(folder / "gelu.onnx", chip, folder, f"--dataset={folder / 'samples.npz'}")


def test_a_broken_plugin_is_one_sentence(installed: Installed, wheels: dict[str, Path]) -> None:
    other = installed.work / "broken"
    installed.environment.install(wheels["broken_plugin"], target=other)
    command = ["compile", str(DIGITS / "digits.onnx"), "--chip", "brokenchip", "-o", "x.bin"]
    done = installed.environment.run("tpuc", *command, folder=installed.work, path=other)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("tpuc: chip 'brokenchip' of broken-plugin 0.2.0 cannot be loaded: ImportError: ")
    assert "Traceback" not in done.stderr
    assert not (installed.work / "x.bin").exists()
    assert installed.environment.run("tpuc", "plugins", path=other).returncode == 0
    check = installed.environment.run("tpuc", "plugins", "--check", path=other)
    assert check.returncode == 1
    assert check.stderr.count("broken-plugin 0.2.0 cannot be loaded") == 2


def test_two_chips_of_one_name_are_one_sentence(installed: Installed, wheels: dict[str, Path]) -> None:
    other = installed.work / "dup"
    installed.environment.install(wheels["dup_chip"], target=other)
    command = ["compile", str(DIGITS / "digits.onnx"), "--chip", "toy", "--quantize", "int8", "-o", "x.toy"]
    command.append(f"--dataset={DIGITS / 'digits_calib.npz'}")
    done = installed.environment.run("tpuc", *command, folder=installed.work, path=other)
    assert done.returncode == 2
    assert " ".join(done.stderr.split()) == (
        "tpuc: chip 'toy' is offered by two packages: dup-chip 0.3.0, toy-chip 0.1.0. Uninstall one, or choose "
        "with --prefer PACKAGE."
    )
    assert not (installed.work / "x.toy").exists()
    preferred = installed.environment.run("tpuc", *command, "--prefer", "toy-chip", folder=installed.work, path=other)
    assert preferred.returncode == 0, preferred.stderr
    assert (installed.work / "x.toy").read_bytes() == installed.before["toy"]
