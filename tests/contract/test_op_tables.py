"""Facts about ops are stated by the ops, as traits: outside of `tpuc_ops` no module keeps a table of op classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.contract.tree import CORE, PLUGINS, parsed, plugin_files, show

OPS = PLUGINS / "ops" / "tpuc_ops"
TABLES_ELSEWHERE = (PLUGINS / "ops", PLUGINS / "chips", PLUGINS / "frontends")
"""Lowerings, kernels and importers are by op: what a chip computes in one way, what a foreign operator becomes."""

DEFENDED = {
    "plugins/passes/tpuc_optimize/canonicalization/affine.py": {"AFFINE_OPS"},
    "plugins/passes/tpuc_optimize/canonicalization/masks.py": {"_FEW", "_JOINS"},
    "plugins/passes/tpuc_optimize/canonicalization/wide_structures.py": {"_GATES", "_INSIDE"},
    "plugins/passes/tpuc_plan/regions/outline.py": {"ATTRIBUTES"},
    "plugins/passes/tpuc_prequantized/absorb_quantization.py": {"_STATED"},
    "plugins/passes/tpuc_prequantized/common.py": {"STORED"},
    "plugins/passes/tpuc_prequantized/zero_points.py": {"_SUMS"},
    "plugins/passes/tpuc_lower/special_values/keep_epsilons.py": {"_STEPS", "_SUMS"},
    "plugins/passes/tpuc_lower/special_values/raised_epsilons.py": {"_DIVIDES"},
    "plugins/tools/tpuc_eval/postprocess/ssd.py": {"_DECODING"},
}
"""Tables that say something else than what an op is; the text below each of them says what."""


@cache
def op_classes() -> dict[str, set[str]]:
    """By dialect, the classes of its ops."""
    return {
        dialect: {
            node.name
            for path in (OPS / dialect).glob("*.py")
            for node in parsed(path).body
            if isinstance(node, ast.ClassDef)
        }
        for dialect in ("top", "tpu")
    }


def op_references(node: ast.AST) -> Iterator[str]:
    """`top.Conv` and `tpu.Lut` where they are named, not where one is made."""
    made = {id(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)}
    for part in ast.walk(node):
        match part:
            case ast.Attribute(value=ast.Name(id=dialect), attr=name) if name in op_classes().get(dialect, ()):
                if id(part) not in made:
                    yield f"{dialect}.{name}"
            case _:
                pass


def tables(tree: ast.Module) -> Iterator[tuple[str, bool]]:
    """The names of module-level tables of op classes, and whether a text below says why they are there."""
    for place, node in enumerate(tree.body):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                if len(set(op_references(value))) > 1:
                    behind = tree.body[place + 1] if place + 1 < len(tree.body) else None
                    yield name, isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant)
            case _:
                pass


def searched() -> list[Path]:
    files = [*CORE.rglob("*.py"), *plugin_files()]
    return [path for path in files if not any(path.is_relative_to(folder) for folder in TABLES_ELSEWHERE)]


def test_no_module_keeps_a_table_of_ops() -> None:
    found = {show(path): {name for name, _ in tables(parsed(path))} for path in searched()}
    assert {path: names for path, names in found.items() if names} == DEFENDED


def test_those_that_are_left_say_why() -> None:
    silent = [f"{show(path)}: {name}" for path in searched() for name, said in tables(parsed(path)) if not said]
    assert not silent


def test_the_search_finds_sets_tuples_and_dictionaries() -> None:
    text = "A = (top.Conv, top.MatMul)\nB: dict[type, int] = {top.Relu: 1, top.Add: 2}\nC = [top.Conv()]\nD = top.Conv"
    assert list(tables(ast.parse(text))) == [("A", False), ("B", False)]
