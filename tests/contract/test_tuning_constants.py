"""Tuning constants of quantization are fields of option dataclasses, each with what it was measured on or a reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.contract.tree import PLUGINS, parsed

ROOM = PLUGINS / "passes" / "tpuc_quantize"
MOST = 60
"""Fields: what calibration can be tuned by stays few enough to be looked at one by one."""
OTHERS = {
    "how much is computed or kept at once": (
        "SAVE_EVERY MANY_ELEMENTS BLOCK_ELEMENTS MOST_KEPT MOST_WHOLE _ROW_ELEMENTS TOGETHER LANES LOOKED_AT"
    ),
    "layout of integers, floats, and bins": (
        "STEPS_PER_OCTAVE BINS DEFAULT_BINS FINER _MAGNITUDE _SHIFT _STEPS LEAST_EXPONENT LARGEST_BYTE MOST_SINGLE "
        "MOST_ELEMENTS FILTER_STEPS DIVISOR LOST NEGLIGIBLE"
    ),
    "keeps arithmetic finite, or is what it resolves": (
        "LEAST SMALLEST_PROBABILITY NO_NOISE_DB NO_LOSS _STEEPEST _STEP _WHATEVER"
    ),
    "formats and texts": "VERSION _SUFFIXES _SHOWN _LEAST_SHOWN",
    "computed from options": "_LOOKS FARTHEST HEAVY",
}
"""Numbers of modules that nobody tunes."""


def tuned() -> Iterator[ast.ClassDef]:
    """The dataclasses of the options, and those of which a module has the only instance."""
    for path in sorted(ROOM.rglob("*.py")):
        body = parsed(path).body
        made = {
            node.value.func.id
            for node in body
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            if not node.value.args
        }
        for node in body:
            if isinstance(node, ast.ClassDef) and (path.parent.name == "options" or node.name in made):
                yield node


def fields() -> Iterator[tuple[str, ast.AnnAssign, ast.stmt | None]]:
    """Each field of such a dataclass, and the statement behind it."""
    for node in tuned():
        for field, behind in zip(node.body, [*node.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                yield f"{node.name}.{field.target.id}", field, behind


def numbers(path: Path) -> Iterator[str]:
    """The names of a module that are set to numbers."""
    for node in parsed(path).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        inside = [] if value is None else [one.value for one in ast.walk(value) if isinstance(one, ast.Constant)]
        if any(type(one) in (int, float) for one in inside):
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def test_every_field_says_what_it_was_measured_on_or_why_it_is_so() -> None:
    silent = [
        name
        for name, _, behind in fields()
        if not (isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant) and behind.value.value)
    ]
    assert silent == []


def test_they_stay_few() -> None:
    assert 48 < len(list(fields())) <= MOST


def test_no_other_number_decides() -> None:
    known = " ".join(OTHERS.values()).split()
    found = {name for path in ROOM.rglob("*.py") for name in numbers(path)}
    assert sorted(found) == sorted(known), found ^ set(known)
