"""Every cell of the chip's support table has a case that is compiled, run and compared."""

from __future__ import annotations

from tpuc.registry import Registry
from tpuc.testing.coverage import uncovered

from tests.chips.cv183x import lowering_cases, more_lowering_cases
from tests.chips.cv183x.test_results import SHOWN
from tests.models.zoo import ops_of_networks


def test_every_supported_op_is_shown() -> None:
    networks = ops_of_networks()
    more = [layer.op for _, layers in more_lowering_cases.LAYERS for layer in layers.values()]
    cases = {
        mode: [*(lowering_cases.CASES[name].op for name in lowering_cases.cases_of(mode)), *more, *SHOWN, *networks]
        for mode in Registry().get("tpuc.chips", "cv183x").description.modes
    }
    assert not uncovered("cv183x", cases, Registry())
