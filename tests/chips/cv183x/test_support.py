"""Every cell of the chip's support table has a case that is compiled, run and compared."""

from __future__ import annotations

from tpuc.registry import Registry
from tpuc.testing.coverage import uncovered

from tests.chips.cv183x.more_lowering_cases import LAYERS
from tests.chips.cv183x.test_results import SHOWN
from tests.models.zoo import ops_of_networks


def test_every_supported_op_is_shown() -> None:
    networks = ops_of_networks()
    layers = [layer for _, group in LAYERS for layer in group.values()]
    cases = {
        mode: [*(layer.op for layer in layers if layer.has(mode)), *SHOWN, *networks]
        for mode in Registry().get("tpuc.chips", "cv183x").description.modes
    }
    assert not uncovered("cv183x", cases, Registry())
