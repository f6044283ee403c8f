"""British spellings of names work for plugins that were written before they changed."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from tpuc.api import F32, LegalizationTable, TensorType
from tpuc.registry import Registry
from tpuc.spelling import american

from tests.families import each

NAMES = (
    ("is_quantised", "is_quantized"),
    ("LegalisationTable", "LegalizationTable"),
    ("QUANTISE_TABLE", "QUANTIZE_TABLE"),
    ("tpuc.legalisations", "tpuc.legalizations"),
    ("equalise-weights", "equalize-weights"),
    ("precise", "precise"),
    ("noise", "noise"),
    ("otherwise", "otherwise"),
    ("raise", "raise"),
)


@each(("old", "new"), NAMES)
def test_only_the_names_that_changed_are_respelled(old: str, new: str) -> None:
    assert american(old) == new


def test_old_names_of_members_and_arguments() -> None:
    registry = Registry()
    known = registry.get("tpuc.chips", "bm1684x").description
    element = registry.get("tpuc.chips", "cv183x").description.quantized_element
    changed: Any = {"quantised_element": element}
    assert replace(known, **changed).quantized_element is element
    assert known.quantised_mode == known.quantized_mode
    assert known.quantised_mode_of(8) == known.quantized_mode_of(8)
    assert not TensorType((1,), F32).is_quantised
    assert LegalizationTable("any", "x").legalises


@pytest.mark.parametrize("name", ["legalise", "absorb-quantisation", "import-quantise-table"])
def test_old_names_of_passes(name: str) -> None:
    registry = Registry()
    assert registry.get("tpuc.passes", name) is registry.get("tpuc.passes", american(name))


def test_old_names_of_requantizing_commands() -> None:
    """Timing tools outside of the repository state them."""
    isa: Any = import_module("tpuc_bm1684x.isa")
    assert isa.Requantise is isa.Requantize
    for op in (isa.RequantizeOp, isa.ConvOp, isa.SplitMatMulOp):
        old = {name: one for name, one in op.__members__.items() if "TISE" in name}
        assert {american(name): one for name, one in old.items()} == {
            name: one for name, one in op.__members__.items() if "TIZE" in name
        }
