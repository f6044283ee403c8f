"""The source files of core and of every bundled plugin, and what they import."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORE = ROOT / "core"
PLUGINS = ROOT / "plugins"


def core_files() -> list[Path]:
    return sorted(CORE.rglob("*.py"))


def core_packages() -> list[Path]:
    """The folders of `core/` that hold Python."""
    return sorted(path for path in CORE.iterdir() if (path / "__init__.py").is_file())


def plugin_packages() -> list[Path]:
    """`plugins/<kind>/<package>` folders that hold Python."""
    return sorted(path for path in PLUGINS.glob("*/*") if any(path.glob("**/*.py")))


def plugin_files() -> list[Path]:
    return [path for package in plugin_packages() for path in sorted(package.rglob("*.py"))]


def show(path: Path) -> str:
    """A path as a reader types it."""
    return path.relative_to(ROOT).as_posix()


def offenders(paths: Iterable[Path], rule: Callable[[Path], list[str]]) -> list[str]:
    """What a rule says against files or packages, each with its path."""
    return [f"{show(path)}: {said}" for path in paths for said in rule(path)]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """All statements at any depth, without the expressions in them, which are ten times as many nodes."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, ())
            if isinstance(inner, list):
                waiting.extend(inner)


@cache
def imports(path: Path) -> tuple[str, ...]:
    """Every imported module by its full name, late imports and `import_module("...")` included."""
    is_called = re.search(r"import_module|__import__", path.read_text(encoding="utf-8"))
    return tuple(_imports(ast.walk(parsed(path)) if is_called else statements(parsed(path))))


def _imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module)):
                yield module
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module
            case _:
                pass


def project() -> dict[str, Any]:
    """The `[project]` table of pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def entry_points() -> dict[str, dict[str, str]]:
    """Entry points by group as pyproject.toml states them, the scripts among them."""
    table = project()
    return {"console_scripts": table.get("scripts", {}), **table.get("entry-points", {})}
