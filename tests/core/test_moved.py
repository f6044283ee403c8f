"""Names that moved to another package answer under their old paths, with a remark that names the new one."""

from __future__ import annotations

from importlib import import_module

import pytest
from tpuc.spelling import american

from tests.families import each

MOVED = (
    ("tpuc.api.host", "SampleReader", "tpuc_driver.api.host"),
    ("tpuc.api.command", "Command", "tpuc_driver.api.command"),
    ("tpuc.testing.kernel_conformance", "KernelConformance", "tpuc_testing.kernel_conformance"),
    ("tpuc.api", "Board", "tpuc_driver.api.board"),
    ("tpuc.api", "SELF_CHECK", "tpuc_driver.api.host"),
    ("tpuc.api.cpu", "cpu_function", "tpuc.api"),
    ("tpuc_quantize.analysis.split_error", "SplitError", "tpuc_accuracy.analysis.split_error"),
    ("tpuc_quantize.mixed_precision.options", "FrontBudget", "tpuc_accuracy.mixed_precision.options"),
    ("tpuc_quantize.prequantized.common", "has_scales", "tpuc_prequantized.common"),
    ("tpuc_quantize.prequantized.prepare_quantized", "PrepareQuantised", "tpuc_prequantized.prepare_quantized"),
    ("tpuc_quantize.scaling.integer_weights", "make_integer_weights", "tpuc_prequantized.integer_weights"),
    ("tpuc_quantize.masks.bound_masks", "BoundMasks", "tpuc_lower.special_values.bound_masks"),
    ("tpuc_quantize.scaling.links", "find_links", "tpuc_optimize.channel_links"),
    ("tpuc.api", "Legalisation", "tpuc.api"),
    ("tpuc.api.legalisation", "LegalisationBuilder", "tpuc.api.legalization"),
    ("tpuc_legalise", "TABLE", "tpuc_legalize"),
    ("tpuc_bm1684x.isa.requantise", "Requantise", "tpuc_bm1684x.isa.requantize"),
)


@each(("old", "name", "new"), MOVED)
def test_an_old_path_leads_to_the_new_one(old: str, name: str, new: str) -> None:
    with pytest.warns(
        FutureWarning, match=f"{old}.{name} is {new}.{american(name)} now; import that. The old name works until"
    ):
        found = getattr(import_module(old), name)
    assert found is getattr(import_module(new), american(name))


def test_a_path_that_never_was_is_not_found() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"tpuc_quantize\.nothing"):
        import_module("tpuc_quantize.nothing")
