"""Every command of the chapter runs as it is printed, and leaves what the chapter says."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tpuc_driver.cli import main as tpuc

from tests.chapter.given import make
from tests.families import each

HERE = Path(__file__).parent
NAMES = HERE.parents[1] / "packages" / "tpuc-mlir-names"
LONG = ("accuracy of a detector", "the regression")
SCENES: list[dict[str, Any]] = tomllib.loads((HERE / "commands.toml").read_text("utf-8"))["scene"]

ENGINES = {".prototxt": ("cv2", "opencv-python-headless"), ".tflite": ("ai_edge_litert.interpreter", "ai-edge-litert")}
"""What the networks of a format are compared with: the module, and the package that has it."""

pytestmark = pytest.mark.chip("bm1684x")


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of scripts can be imported."""
    monkeypatch.syspath_prepend(str(NAMES))


def run(words: list[str]) -> tuple[int, str, str]:
    """Run a command in this process: exit code, stdout, stderr."""
    from tpuc_mlir_names import main

    if words[0] == "python":
        runpy.run_path(words[1], run_name="__main__")
        return 0, "", ""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = tpuc(words[1:]) if words[0] == "tpuc" else main(words)
    return status, out.getvalue(), err.getvalue()


def _engines(scene: dict[str, Any]) -> list[tuple[str, str]]:
    """What a scene is compared with, besides ONNX Runtime."""
    return [engine for suffix, engine in ENGINES.items() if any(one.endswith(suffix) for one in scene["given"])]


@each(
    "scene",
    [
        pytest.param(one, marks=pytest.mark.slow if one["name"] in LONG else (), id=one["name"])
        for one in SCENES
        if not _engines(one)
    ],
)
def test_scene(scene: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_scene(scene, tmp_path, monkeypatch)


@pytest.mark.parametrize("scene", [one for one in SCENES if _engines(one)], ids=lambda one: one["name"])
def test_scene_beside_another_engine(scene: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, package in _engines(scene):
        pytest.importorskip(module, reason=f"needs {package}")
    check_scene(scene, tmp_path, monkeypatch)


def check_scene(scene: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the commands of a scene in a folder of their own."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    for given in scene["given"]:
        make(folder, given)
    monkeypatch.chdir(folder)
    for command in scene["command"]:
        if "serves" in command:
            check_served(command["run"], command["serves"], folder)
            continue
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        status, said, remarks = run(shlex.split(command["run"]))
        assert status == 0, f"{command['run']}\n{said}{remarks}"
        for name in command.get("leaves", ()):
            assert (folder / name).stat().st_size > 0
            assert (folder / name).stat().st_mtime_ns != before.get(name), f"{name} is older than {command['run']}"
        assert re.search(command.get("says", ""), said), said


_INTERRUPTIBLE = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tpuc_mlir_names import main
sys.exit(main(sys.argv[1:]))
"""
"""A shell that starts the tests in the background lets what it starts ignore interrupts."""


def check_served(command: str, port: int, folder: Path) -> None:
    """Run a command that serves a page in a process of its own, look at the page, and interrupt it."""
    words = shlex.split(command)
    if _answers(port):  # somebody else's: any other port will do
        words, port = [*words, "--port", "0"], 0
    environment = {**os.environ, "PYTHONPATH": str(NAMES)}
    program = [sys.executable, "-c", _INTERRUPTIBLE]
    with subprocess.Popen(
        [*program, *words], cwd=folder, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = next((line for line in process.stderr if line.startswith("http")), "")  # behind remarks
            place = re.match(r"http://127\.0\.0\.1:(\d+)/ serves the networks; stop with Ctrl-C$", said)
            assert place, said
            assert int(place[1]) == (port or int(place[1]))
            with urllib.request.urlopen(f"http://127.0.0.1:{place[1]}/", timeout=60) as page:
                assert b"quant.mlir" in page.read()
            process.send_signal(signal.SIGINT)
            process.wait(60)
        finally:
            process.kill()


def _answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False
