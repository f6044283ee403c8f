"""Every cell of each chip's support table has a case that is compiled for it, run and compared."""

from __future__ import annotations

from tpuc.registry import Registry
from tpuc_testing.coverage import uncovered

from tests.chips.cv18.support_cases import cases
from tests.chips.cv18xx import NAMES
from tests.families import each


@each("chip", NAMES)
def test_every_supported_op_is_shown(chip: str) -> None:
    assert not uncovered(chip, cases(chip), Registry())


def test_an_op_without_a_case_is_told() -> None:
    fewer = {mode: [op for op in found if op.name != "top.Softmax"] for mode, found in cases("cv180x").items()}
    assert uncovered("cv180x", fewer, Registry()) == ["top.Softmax bf16: no case", "top.Softmax int8: no case"]
