"""`nox` runs what a change must pass; `nox -s lint`, `-s types`, `-s tests` or `-s lowest` one of them."""

from __future__ import annotations

import nox

nox.options.sessions = ["lint", "types", "tests", "lowest"]
nox.options.reuse_existing_virtualenvs = True

QUICK = (
    *("tests/core", "tests/frontends/caffe", "tests/frontends/tflite", "tests/frontends/onnx/test_layers.py"),
    *("tests/tools/npz", "tests/tools/visual", "tests/tools/eval", "tests/passes/calibration/test_engine.py"),
    "tests/contract/test_packaging.py",
)
"""Tests of two minutes that together use every dependency."""
DEV = nox.project.load_toml("pyproject.toml")["project"]["optional-dependencies"]["dev"]


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
def lowest(session: nox.Session) -> None:
    """The quick tests with the lowest versions that pyproject.toml names."""
    session.install(tool("uv"))
    python = f"{session.virtualenv.location}/bin/python"
    session.run("uv", "pip", "install", "-q", "--python", python, "--resolution=lowest-direct", "-e", ".[test]")
    session.run("python", "-m", "pytest", "-q", *QUICK, "-m", "not slow", *(session.posargs or ("-n", "auto")))
