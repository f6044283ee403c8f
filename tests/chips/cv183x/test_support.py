"""Every cell of the chip's support table has a case that is compiled, run and compared."""

from __future__ import annotations

from functools import cache

from tpuc.api import Op
from tpuc.registry import Registry
from tpuc.testing.coverage import uncovered

from tests.chips.cv183x.more_lowering_cases import LAYERS
from tests.chips.cv183x.test_results import SHOWN
from tests.models.zoo import ops_of_networks

NETWORKS = cache(ops_of_networks)


def cases(chip: str) -> dict[str, list[Op]]:
    """What is compiled for a chip of the family, run and compared, by mode."""
    layers = [layer for _, group in LAYERS for layer in group.values()]
    return {
        mode: [*(layer.op for layer in layers if layer.has(mode)), *SHOWN, *NETWORKS()]
        for mode in Registry().get("tpuc.chips", chip).description.modes
    }


def test_every_supported_op_is_shown() -> None:
    assert not uncovered("cv183x", cases("cv183x"), Registry())
