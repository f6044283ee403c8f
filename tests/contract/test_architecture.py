"""Core knows no plugin, a plugin knows the public interface only, and every file can be read in one sitting."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.contract.tree import CORE, PLUGINS, ROOT, core_files, imports, parsed, plugin_files, plugin_packages, show

OP_LIBRARY = "tpuc_ops"
CHIP_NAME = re.compile(r"bm1[0-9]{3}|cv1[0-9]{2}x|sg2[0-9]{3}", re.IGNORECASE)
LINES_ANYWHERE, LINES_OP_OR_PASS, LINES_LOWERING = 500, 150, 250

each_file = pytest.mark.parametrize("path", [*core_files(), *plugin_files()], ids=show)


@pytest.mark.parametrize("path", core_files(), ids=show)
def test_core_imports_no_plugin(path: Path) -> None:
    assert [name for name in imports(path) if name.startswith("tpuc_")] == []


@pytest.mark.parametrize("path", sorted(p for p in CORE.rglob("*") if p.suffix in {".py", ".json", ".toml"}), ids=show)
def test_core_names_no_chip(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    named = [f"{show(path)}:{number}: {line.strip()}" for number, line in enumerate(lines, 1) if CHIP_NAME.search(line)]
    assert named == []


@pytest.mark.parametrize("path", plugin_files(), ids=show)
def test_plugin_imports_the_public_interface_and_the_op_library_only(path: Path) -> None:
    package = path.relative_to(PLUGINS).parts[1]
    allowed = {package, OP_LIBRARY}
    ours = [name for name in imports(path) if name.split(".")[0].startswith("tpuc")]
    foreign = [
        name
        for name in ours
        if name.split(".")[0] not in allowed and name != "tpuc.api" and not name.startswith("tpuc.api.")
    ]
    assert foreign == [], "import these from tpuc.api"


@pytest.mark.parametrize("package", plugin_packages(), ids=show)
def test_package_is_named_tpuc_and_typed(package: Path) -> None:
    assert package.name.startswith("tpuc_")
    assert (package / "__init__.py").is_file()
    assert (package / "py.typed").is_file()


def test_core_is_typed() -> None:
    assert (CORE / "tpuc" / "py.typed").is_file()


@each_file
def test_module_says_what_lives_in_it(path: Path) -> None:
    docstring = ast.get_docstring(parsed(path))
    assert docstring, f"{show(path)}: begin with one line on what lives here"
    if len(parsed(path).body) > 1:
        imported = [node.names[0].name for node in parsed(path).body if isinstance(node, ast.ImportFrom)]
        assert "annotations" in imported[:1], f"{show(path)}: from __future__ import annotations comes first"


def line_limit(path: Path) -> int:
    """The most lines a file of this kind may have."""
    parts = path.relative_to(ROOT).parts
    if "lowerings" in parts:
        return LINES_LOWERING
    if parts[:3] == ("plugins", "ops", OP_LIBRARY) and len(parts) == 5 and parts[3] in {"top", "tpu"}:
        return LINES_OP_OR_PASS  # plugins/ops/tpuc_ops/top/relu.py; quant/ holds arithmetic, no ops
    if parts[:2] == ("plugins", "passes") and len(parts) == 4:
        return LINES_OP_OR_PASS  # one pass per file; the packages beside them hold algorithms
    return LINES_ANYWHERE


@each_file
def test_file_is_short_enough_to_read(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= line_limit(path), f"{show(path)} has {lines} lines: split it by subject"


@pytest.mark.parametrize("folder", ["tests", "examples", "benchmarks"])
def test_other_files_are_short_enough_to_read(folder: str) -> None:
    counted = {show(path): len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / folder).rglob("*.py")}
    assert {name: lines for name, lines in counted.items() if lines > LINES_ANYWHERE} == {}


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("plugins/ops/tpuc_ops/top/relu.py", 150),
        ("plugins/ops/tpuc_ops/quant/arithmetic.py", 500),
        ("plugins/passes/tpuc_passes/fold_constants.py", 150),
        ("plugins/passes/tpuc_passes/planning/greedy.py", 500),
        ("plugins/chips/tpuc_toy/lowerings/conv.py", 250),
        ("core/tpuc/registry.py", 500),
    ],
)
def test_limits_follow_the_kind_of_file(path: str, limit: int) -> None:
    assert line_limit(ROOT / path) == limit
