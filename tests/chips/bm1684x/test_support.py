"""Every cell of the chip's support table has a case that is compiled, run and compared."""

from __future__ import annotations

from tpuc.registry import Registry
from tpuc_testing.coverage import uncovered

from tests.chips import test_dynamic_quantization, weight_only
from tests.chips.bm1684x import test_best_classes, test_results
from tests.chips.bm1684x.kernels import more_cases, test_lowerings, test_place_lowerings
from tests.models.zoo import ops_of_networks


def test_every_supported_op_is_shown() -> None:
    groups = (test_lowerings.CASES, more_cases.CASES, test_place_lowerings.CASES)
    cases = [case.op for group in groups for case in group.values()]
    cases += [*test_results.SHOWN, *test_best_classes.SHOWN, *test_dynamic_quantization.SHOWN, *weight_only.SHOWN]
    cases += ops_of_networks()
    modes = Registry().get("tpuc.chips", "bm1684x").description.modes
    assert not uncovered("bm1684x", dict.fromkeys(modes, cases), Registry())
