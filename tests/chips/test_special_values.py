"""Functions of every element at zeros, denormals, ends of the range, whole numbers and powers of two: by ONNX Runtime,
but for what `docs/special-values.md` lists.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tpuc.api import Elementwise, Op
from tpuc.registry import Registry

from tests.chips import special_values as special
from tests.families import each
from tests.frontends.onnx.networks import ops, read

QUICK = (("cv183x", "bf16", "powers"),)
CELLS = [
    pytest.param(
        *(chip, mode, group),
        marks=[pytest.mark.chip(chip), *([] if (chip, mode, group) in QUICK else [pytest.mark.slow])],
        id=f"{chip}-{mode}-{group}",
    )
    for chip, mode in special.RUNS
    for group in special.GROUPS
]
ELSEWHERE = {"top.Bitwise", "top.Rsqrt", "top.SiLU"}
"""Of integers alone, and what passes make of other cases."""


def listed(chip: str, mode: str, group: str) -> list[str]:
    """The rows of a chip's section of the page."""
    text = special.PAGE.read_text(encoding="utf-8")
    section = text.partition(f"\n## {chip}, {mode}\n")[2].partition("\n## ")[0]
    names = {str(case) for case in special.GROUPS[group]}
    return [row for row in section.splitlines() if (found := re.match(r"\| `(.*?)`", row)) and found.group(1) in names]


@pytest.mark.parametrize(("chip", "mode", "group"), CELLS)
def test_every_other_answer_is_on_the_page(chip: str, mode: str, group: str, tmp_path: Path) -> None:
    count, found = special.differences(special.GROUPS[group], chip, mode, tmp_path)
    assert count >= 2000
    assert special.rows(found) == listed(chip, mode, group)


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("c", "bm1684x")])
def test_powers_that_are_one_for_every_number_are_it_for_nan(chip: str, tmp_path: Path) -> None:
    cases = (special.Case("Pow", after=(0.0,)), special.Case("Pow", after=(-0.0,)), special.Case("Pow", before=(1.0,)))
    assert special.differences(cases, chip, "f32", tmp_path)[1] == []


def test_every_elementwise_op_of_the_library_is_among_the_cases(tmp_path: Path) -> None:
    seen = {
        f"top.{name}" for cases in special.GROUPS.values() for name in ops(read(special.model_of(cases, 4), tmp_path))
    }
    dialect = Registry().get("tpuc.dialects", "top")
    classes: list[type[Op]] = [op for op in map(dialect.op, dialect.names()) if op and issubclass(op, Elementwise)]
    assert {op.name for op in classes} - seen == ELSEWHERE
