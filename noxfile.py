"""`nox` runs what a change must pass; `nox -s lint`, `-s types`, `-s tests` or `-s lowest` one of them.

`nox -s newcomer` does what README and the tutorial say, `nox -s docs` builds the site of docs/. `nox -s release` is for
what is published: wheel and source archive, twice the same, installed on every Python.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from time import perf_counter

import nox

nox.options.sessions = ["lint", "types", "tests", "lowest"]
nox.options.reuse_existing_virtualenvs = True

QUICK = (
    *("tests/core/data", "tests/core/ir", "tests/core/test_npz.py", "tests/core/test_onnx_backend.py"),
    *(f"tests/core/test_cli_{name}.py" for name in ("commands", "foreign", "manners", "shell", "tables", "values")),
    *("tests/core/test_facade.py", "tests/core/test_facade_inputs.py", "tests/core/test_progress.py"),
    "tests/core/test_registry_hooks.py",
    *("tests/frontends/caffe", "tests/frontends/tflite", "tests/frontends/onnx/test_layers.py"),
    *("tests/tools/npz", "tests/tools/visual", "tests/tools/eval", "tests/passes/calibration/test_engine.py"),
    "tests/contract/test_packaging.py",
)
"""Tests of a minute that together use every dependency."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""On which the wheel is installed, where the machine has them."""
DEV = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]["dev"]
DOCS = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]["docs"]


def tool(name: str) -> str:
    """The requirement of one development tool, as pyproject.toml states it."""
    return next(requirement for requirement in DEV if requirement.startswith(name))


@nox.session
def lint(session: nox.Session) -> None:
    session.install(tool("ruff"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    session.install("-e", ".[test]", tool("pyright"))
    session.run("pyright")


@nox.session
def tests(session: nox.Session) -> None:
    """`nox -s tests -- --model-data DIR -n 2` passes options on."""
    session.install("-e", ".[test]")
    session.run("python", "-m", "pytest", "tests", *session.posargs)


@nox.session
def newcomer(session: nox.Session) -> None:
    """What a newcomer does, with the time of each step: install, README's example, the commands of the tutorial, then a
    chip of his own with its tests, and the tutorial's network compiled for it.
    """
    example, tutorial = Path("examples", "digits").resolve(), Path("docs", "tutorial.md")
    commands = re.findall(r"^tpuc .*$", tutorial.read_text(encoding="utf-8"), re.MULTILINE)
    folder = Path(session.create_tmp()) / "work"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(example, folder)
    session.run("python", "-m", "pip", "uninstall", "-q", "-y", "my-npu", silent=True)  # of the last time
    steps = [("pip install .", ["python", "-m", "pip", "install", "-q", "."])]
    steps += [("the example", ["python", str(example / "run.py")])]
    steps += [(command, shlex.split(command)) for command in commands]
    own_chip = [
        "tpuc new chip my-npu",
        "python -m pip install -q pytest -e my-npu",
        "python -m pytest -q my-npu",
        "tpuc compile digits.onnx --chip my-npu --quantize int8 --dataset digits_calib.npz -o digits.my-npu",
    ]
    steps += [(command, shlex.split(command)) for command in own_chip]
    times: list[str] = []
    for name, words in steps:
        start = perf_counter()
        with session.chdir("." if name in ("pip install .", "the example") else folder):
            session.run(*words, silent=words[0] != "python")
        times.append(f"{perf_counter() - start:6.1f} s  {name}")
    session.log("\n".join(["a newcomer's first steps:", *times]))


@nox.session
def exports(session: nox.Session) -> None:
    """Export the collection of architectures and compile it: benchmarks/exports.json, then docs/models.md.

    `nox -s exports -- resnet18 --part 1/2` passes names and options on.
    """
    session.install("-e", ".", "torch", "torchvision", "timm", "transformers", "ultralytics", "onnxscript")
    session.run("python", "benchmarks/exports.py", *session.posargs)
    session.run("python", "docs/generate.py")


@nox.session
def docs(session: nox.Session) -> None:
    """The site, in build/site, with its notebooks executed; warnings are errors."""
    session.install("-e", ".", *DOCS)
    session.run("mkdocs", "build", "--strict", *session.posargs)


@nox.session
def lowest(session: nox.Session) -> None:
    """The quick tests with the lowest versions that pyproject.toml names."""
    session.install(tool("uv"))
    python = f"{session.virtualenv.location}/bin/python"
    session.run("uv", "pip", "install", "-q", "--python", python, "--resolution=lowest-direct", "-e", ".[test]")
    session.run("python", "-m", "pytest", "-q", *QUICK, "-m", "not slow", *(session.posargs or ("-n", "auto")))


def interpreter(version: str) -> str | None:
    """A CPython of that version which starts: version managers leave names of those that are switched off."""
    python = shutil.which(f"python{version}")
    if python is None:
        return None
    done = subprocess.run([python, "--version"], capture_output=True, check=False)
    return python if done.returncode == 0 else None


@nox.session
def release(session: nox.Session) -> None:
    """Build wheel and source archive twice, and run the example from the wheel alone; build and check the packages
    beside it.
    """
    session.install("build", "twine")
    for package in sorted(Path("packages").iterdir()):
        target = Path(session.create_tmp()) / package.name
        shutil.rmtree(target, ignore_errors=True)
        session.run("python", "-m", "build", "--outdir", str(target), str(package), silent=True)
        session.run("twine", "check", "--strict", *map(str, target.iterdir()))
    folders = [Path(session.create_tmp()) / name for name in ("first", "second")]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
        session.run("python", "-m", "build", "--outdir", str(folder), ".", silent=True)
    built = sorted(folders[0].iterdir())
    for path in built:
        size = path.stat().st_size
        if path.read_bytes() != (folders[1] / path.name).read_bytes():
            session.error(f"{path.name}: two builds have different bytes")
        session.log(f"{path.name}: {size:,} B, built twice with the same bytes")
    wheel = next(path for path in built if path.suffix == ".whl").resolve()
    example = Path("examples", "digits", "run.py").resolve()
    for version in PYTHONS:
        python = interpreter(version)
        if python is None:
            session.log(f"python{version}: not on this machine")
            continue
        environment = Path(session.create_tmp()).resolve() / f"python{version}"
        session.run(python, "-m", "venv", "--clear", str(environment), external=True)
        tool = str(environment / "bin" / "python")
        session.run(tool, "-m", "pip", "install", "-q", str(wheel), external=True)
        with session.chdir(environment):
            session.run(tool, "-m", "tpuc", "doctor", external=True, silent=True)
            session.run(tool, str(example), external=True)
