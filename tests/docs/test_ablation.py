"""Constants of calibration are few and each has its evidence; the page of what they are worth is current."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator

from benchmarks import ablation
from tests.contract.tree import PLUGINS, parsed, show

PACKAGE = PLUGINS / "passes" / "tpuc_quantize"
MOST_CONSTANTS, MOST_LINES = 60, 8_000


def option_classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """The dataclasses of options: those that are made without arguments for a constant of their module."""
    for path in sorted(PACKAGE.rglob("*.py")):
        classes = {node.name: node for node in parsed(path).body if isinstance(node, ast.ClassDef)}
        for node in parsed(path).body:
            match node:
                case ast.Assign(value=ast.Call(func=ast.Name(id=name), args=[], keywords=[])) if name in classes:
                    yield show(path), classes[name]
                case _:
                    pass


def test_constants_are_few_and_each_says_what_it_rests_on() -> None:
    fields = [
        (f"{path}: {one.name}.{ast.unparse(field.target)}", behind)
        for path, one in option_classes()
        for field, behind in zip(one.body, [*one.body[1:], None], strict=True)
        if isinstance(field, ast.AnnAssign)
    ]
    assert 50 < len(fields) <= MOST_CONSTANTS
    assert [name for name, text in fields if not isinstance(text, ast.Expr)] == []


def test_quantization_stays_small() -> None:
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py"))
    assert lines <= MOST_LINES


def test_the_page_of_the_ablation_is_current() -> None:
    assert ablation.PAGE.read_text() == ablation.page(json.loads(ablation.TABLE.read_text()))


def test_what_switches_a_constant_off_is_of_one_that_is_there() -> None:
    assert {name.partition(":")[2] for name in ablation.constants()} >= ablation.NEUTRAL.keys()
