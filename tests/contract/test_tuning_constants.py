"""Tuning constants of quantization are fields of option dataclasses, each with what it was measured on or a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.contract.tree import PLUGINS, parsed

OPTIONS = PLUGINS / "passes" / "tpuc_quantize" / "options"
MOST = 60
"""Fields: what calibration can be tuned by stays few enough to be looked at one by one."""


def fields() -> Iterator[tuple[str, ast.AnnAssign, ast.stmt | None]]:
    """Each field of a dataclass there, and the statement behind it."""
    for path in sorted(OPTIONS.glob("*.py")):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef):
                for field, behind in zip(node.body, [*node.body[1:], None], strict=True):
                    if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                        yield f"{node.name}.{field.target.id}", field, behind


def test_every_field_says_what_it_was_measured_on_or_why_it_is_so() -> None:
    silent = [
        name
        for name, _, behind in fields()
        if not (isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant) and behind.value.value)
    ]
    assert silent == []


def test_they_stay_few() -> None:
    assert 0 < len(list(fields())) <= MOST
