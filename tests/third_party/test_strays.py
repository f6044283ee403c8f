"""Installed packages that are broken stop nobody who did not ask for them; a remark names each."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from tpuc.registry import Registry
from tpuc.registry.offers import scan_installed
from tpuc_driver.cli import main

from tests.third_party.strays import MODULES, NAMES, write_stray

GROUPS = Registry(offers=[]).groups
ITERATING = {"tpuc.frontends", "tpuc.answers", "tpuc.chips", "tpuc.engines", "tpuc.importers", "tpuc.postprocess"}
"""Groups in which the commands below look for the right entry."""
COMMANDS: Sequence[Sequence[str]] = (
    ("compile", "net.onnx", "--chip", "bm1684x", "--quantize", "f16", "-o", "out.bmodel"),
    ("run", "out.bmodel", "in.npz", "-o", "o.npz"),
    ("run", "net.onnx", "in.npz"),
    ("check", "net.onnx", "--chip", "bm1684x", "--quantize", "f16"),
    ("transform", "--model-name", "net", "--model-def", "net.onnx", "--mlir", "net.mlir", "--test-input", "in.npz"),
    ("matrix", "--chip", "bm1684x"),
    ("profile", "out.bmodel"),
    ("disasm", "out.bmodel"),
    ("plugins",),
    ("--help",),
)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the import path, and a network in the current one; packages are looked for anew."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    ends = [make_tensor_value_info(name, 1, (1, 4, 4, 4)) for name in ("x", "y")]
    graph = make_graph([make_node("Relu", ["x"], ["y"])], "net", ends[:1], ends[1:])
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=9), "net.onnx")
    np.savez("in.npz", x=np.ones((1, 4, 4, 4), np.float32))
    refresh()
    yield folder
    refresh()
    for name in [name for name in sys.modules if name.endswith("_module") and name.startswith("stray")]:
        del sys.modules[name]


def refresh() -> None:
    importlib.invalidate_caches()
    scan_installed.cache_clear()


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    capsys.readouterr()
    code = main(arguments)
    return code, capsys.readouterr().err


def complaints(capsys: pytest.CaptureFixture[str], commands: Sequence[Sequence[str]] = COMMANDS) -> list[str]:
    """The commands that fail or show more than remarks about strays."""
    found: list[str] = []
    for arguments in commands:
        code, told = said(capsys, *arguments)
        others = [line for line in told.splitlines() if "left out" not in line]
        if code or any("internal error" in line or "Traceback" in line for line in others):
            found.append(f"tpuc {' '.join(arguments)}: {code} {told}")
    return found


def test_every_kind_of_breakage_in_every_group(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, module in enumerate(MODULES.values()):
        points = {group: f"{NAMES.get(group, 'stray')}{number}" for group in GROUPS if group != "tpuc.groups"}
        write_stray(site, f"stray{number}", points, module)
    refresh()
    assert "\n".join(complaints(capsys)) == ""


@pytest.mark.parametrize("group", sorted(ITERATING | {"tpuc.groups"}))
def test_a_package_alone_is_named_once_by_whoever_looks_there(
    group: str, site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "tpuc.strays" if group == "tpuc.groups" else NAMES.get(group, "stray")
    write_stray(site, "stray", {group: name, "tpuc.strays": "any"}, MODULES["ImportError"])
    refresh()
    for arguments in COMMANDS:
        code, told = said(capsys, *arguments)
        assert code == 0, (arguments, told)
        assert told.count("left out: ") <= 1, (arguments, told)
        if "left out" in told:
            assert "'stray' of stray 1.0 cannot be loaded: ImportError: boom" in told, told


def test_two_packages_with_one_name_stop_nobody_else(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for package in ("stray1", "stray2"):
        points = {group: NAMES.get(group, "stray") for group in GROUPS}
        write_stray(site, package, points, MODULES["wrong object"])
    refresh()
    assert complaints(capsys) == []


def test_what_was_asked_for_is_one_sentence_with_its_author(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_stray(site, "stray", dict.fromkeys(GROUPS, "stray"), MODULES["ImportError"])
    refresh()
    Path("net.stray").write_bytes(b"")
    for arguments in (
        ("compile", "net.stray", "--chip", "bm1684x", "-o", "out.bmodel"),
        ("compile", "net.onnx", "--chip", "stray", "-o", "out.bmodel"),
        ("profile", "net.stray"),
        ("stray",),
        ("check", "net.onnx", "--chip", "bm1684x", "--board", "stray"),
        ("plugins", "--check"),
    ):
        code, told = said(capsys, *arguments)
        assert code in (1, 2), arguments
        assert "'stray' of stray 1.0 cannot be loaded: ImportError: boom" in told, (arguments, told)
        assert arguments[0] == "plugins" or len(told.splitlines()) == 1, (arguments, told)


METADATA = {
    "no UTF-8": (b"[tpuc.chips]\nstray = stray_module:\xff\n", b"Metadata-Version: 2.1\nName: stray\nVersion: 1.0\n"),
    "no UTF-8 in METADATA": (b"[tpuc.chips]\nstray = stray_module:X\n", b"Name: stray\nVersion: \xff\n"),
    "no METADATA": (b"[tpuc.chips]\nstray = stray_module:X\n", None),
    "METADATA without a name": (b"[tpuc.chips]\nstray = stray_module:X\n", b"Metadata-Version: 2.1\n"),
    "another package, no UTF-8": (b"[console_scripts]\nstray = \xff\xfe\n", None),
    "lines without values": (b"[tpuc.chips]\nstray\n", None),
    "values that name nothing": (b"[tpuc.chips]\nstray = \n= x\n", None),
    "no path": (b"[tpuc.chips]\nstray = a b c::\n[tpuc.]\nx = y\n", None),
}


@pytest.mark.parametrize("kind", METADATA)
def test_metadata_that_cannot_be_read(kind: str, site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    points, metadata = METADATA[kind]
    folder = site / "stray-1.0.dist-info"
    folder.mkdir()
    (folder / "entry_points.txt").write_bytes(points)
    if metadata is not None:
        (folder / "METADATA").write_bytes(metadata)
    refresh()
    assert complaints(capsys) == []
    if kind == "no UTF-8":
        refresh()
        sentence = (
            "the plugins of stray 1.0 are left out: its entry_points.txt cannot be read: it is not UTF-8. "
            "Install it again, or uninstall stray."
        )
        for arguments in (("plugins",), ("plugins", "--check"), ("doctor",)):
            main(arguments)
            out, err = capsys.readouterr()
            assert sentence in out + err, arguments


def test_an_answer_that_raises_is_left_out_of_what_run_says(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = (
        "from tpuc_driver.api.answers import Answer\n"
        "class X(Answer):\n    def lines(self, ran, asked):\n        return 1 // 0\n"
    )
    write_stray(site, "stray", {"tpuc.answers": "stray"}, module)
    refresh()
    code, told = said(capsys, "run", "net.onnx", "in.npz")
    assert code == 0
    assert told.startswith("left out: stray 1.0: `X.lines` fails"), told


def test_a_shell_completes_past_a_broken_command(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_stray(site, "stray", {"tpuc.commands": "stray"}, MODULES["ImportError"])
    refresh()
    from tpuc_driver.cli.app import App
    from tpuc_driver.cli.shell import Shell

    shell = Shell()
    with shell.make_context("tpuc", [], obj=App(), resilient_parsing=True) as context:
        found = {item.value for item in shell.shell_complete(context, "")}
    assert "compile" in found
    assert "stray" not in found


def test_random_metadata_stops_no_command(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    random = np.random.default_rng(20261127)
    points = "".join(f"[{group}]\n{NAMES.get(group, 'stray')} = stray_module:X\n" for group in GROUPS).encode()
    for number in range(60):
        folder = site / f"random{number}-1.0.dist-info"
        folder.mkdir()
        for name, sound in (("entry_points.txt", points), ("METADATA", b"Name: random\nVersion: 1.0\n")):
            content = bytearray(sound)
            for _ in range(int(random.integers(0, 6))):
                place = int(random.integers(len(content)))
                content[place : place + int(random.integers(3))] = random.bytes(int(random.integers(4)))
            (folder / name).write_bytes(bytes(content))
    refresh()
    assert complaints(capsys, [command for command in COMMANDS if command[0] != "transform"]) == []
