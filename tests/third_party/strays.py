"""Distributions that lie beside tpuc in broken ways, written into a folder of the import path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

NAMES: Mapping[str, str] = {
    "tpuc.importers": "onnx.stray",
    "tpuc.lowerings": "bm1684x.stray",
    "tpuc.legalizations": "any.stray",
    "tpuc.kernels": "bm1684x.stray",
    "tpuc.cpu_functions": "bm1684x.Stray",
}
"""Entry names in groups whose names have a form; the package has the dialect, so its tables take part by themselves."""

MODULES: Mapping[str, str] = {
    "ImportError": "raise ImportError('boom')",
    "ModuleNotFoundError": "import a_module_that_nobody_has",
    "SyntaxError": "X = (",
    "any exception": "1 / 0",
    "an exception of its own": "class Odd(BaseException): ...\nraise Odd('boom')",
    "SystemExit": "raise SystemExit(3)",
    "wrong object": "class X: api_version = 1",
    "no api_version": "X = object()",
    "another api_version": "class X: api_version = 99",
    "missing attribute": "Y = 1",
    "attributes that raise": "class K:\n    def __getattr__(self, name): raise ZeroDivisionError(name)\nX = K()",
    "bytes that are no text": "\udcff\udcfe",
}
"""What a module may be instead of one with a plugin `X`."""


def write_stray(site: Path, package: str, points: Mapping[str, str], module: str = "") -> None:
    """A distribution whose entry points, by group, all name `X` in a module of this text."""
    folder = site / f"{package}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
    text = "".join(f"[{group}]\n{name} = {package}_module:X\n" for group, name in points.items())
    (folder / "entry_points.txt").write_text(text, "utf-8")
    (site / f"{package}_module.py").write_bytes(module.encode("utf-8", errors="surrogateescape"))
