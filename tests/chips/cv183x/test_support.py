"""Every cell of the chip's support table has a case that is compiled, run and compared."""

from __future__ import annotations

from tpuc.registry import Registry
from tpuc_testing.coverage import uncovered

from tests.chips.cv18.support_cases import cases


def test_every_supported_op_is_shown() -> None:
    assert not uncovered("cv183x", cases("cv183x"), Registry())
