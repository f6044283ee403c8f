"""Chips of one family compute the same values: what has one accuracy on one of them has it on all."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tpuc.ir.text.printer import print_module
from tpuc.registry import Registry

from tests.models.networks import Network
from tests.models.rows import lower

FAMILIES: dict[str, list[str]] = {}
for _name in Registry().names("tpuc.chips"):
    for _family in Registry().get("tpuc.chips", _name).description.families:
        FAMILIES.setdefault(_family, []).append(_name)
MEMBERS = [pytest.param(first, name, id=name) for first, *others in FAMILIES.values() for name in others]


@pytest.mark.parametrize("mode", ["int8", "bf16"])
@pytest.mark.parametrize(("first", "name"), MEMBERS)
def test_the_lowered_network_is_that_of_the_family(
    first: str, name: str, mode: str, network: Callable[[str], Network]
) -> None:
    digits = network("digits")
    table = digits.table if mode == "int8" else None
    lowered, known = (lower(digits.module, chip, table, mode) for chip in (name, first))
    assert print_module(lowered).replace(name, first) == print_module(known)
    assert [*lowered.weights] == [*known.weights]
    for key in known.weights:
        assert np.array_equal(lowered.weights[key], known.weights[key]), key
