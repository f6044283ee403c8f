"""Calibration can round filters by what they are multiplied with, and what is compiled follows its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_driver.session.compare import meanings
from tpuc_quantize.remedies.round_weights import ROUNDING, annotated_changes
from tpuc_quantize.simulation.grids import stored_filters

from tests.passes.accuracy.test_rounding import convolution, like_channels

Array = NDArray[Any]
CHIPS = [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]
CHANNELS = 24
SHAPE = (CHANNELS, 6, 6)
GIVEN = like_channels(48, *SHAPE, spread=0.02)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("samples") / "x.npy"
    np.save(path, np.stack(GIVEN[:32]))
    return Session().calibrate(convolution(8, CHANNELS), dataset=path, options={"round_weights": True})


def lowered(chip: str, table: Any) -> Module:
    found: list[Module] = []
    session = Session(chip=chip, quantize="int8")
    session.build(convolution(8, CHANNELS), table, after_lowering=lambda one: found.append(one.clone()))
    return found[0]


def noise(module: Module) -> float:
    """Of the convolution, on samples that calibration has not seen."""
    exact = convolution(8, CHANNELS)
    found = 0.0
    for x in GIVEN[32:]:
        wanted, got = (meanings(one, Interpreter(one).run({"v0": x}, "all")) for one in (exact, module))
        found += float(((wanted["v3"] - got["v3"].reshape(wanted["v3"].shape)) ** 2).sum())
    return found


def test_the_table_notes_it_and_says_why(table: Any) -> None:
    assert table.sections[ROUNDING][0].startswith("v3 ")
    assert any("filters: 1 rounded by what they are multiplied with" in remark for remark in table.remarks)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_chip_has_these_integers(chip: str, table: Any) -> None:
    module = convolution(8, CHANNELS)
    operation = next(one for one in module.main.operations if one.name == "v3")
    nearest, _ = stored_filters(operation.op, module.weights[operation.operands[1].name])
    wanted = nearest + annotated_changes(module, table)["v3"].reshape(nearest.shape)
    compiled = lowered(chip, table)
    arrays = [compiled.weights[name] for name in compiled.weights]
    stored = [array for array in arrays if array.dtype == np.int8 and array.size == wanted.size]
    assert any(np.array_equal(np.sort(array, None), np.sort(wanted, None)) for array in stored)


@pytest.mark.parametrize("chip", CHIPS)
def test_the_compiled_network_is_nearer(chip: str, table: Any) -> None:
    sections = {name: lines for name, lines in table.sections.items() if name != ROUNDING}
    assert noise(lowered(chip, table)) < 0.8 * noise(lowered(chip, replace(table, sections=sections)))
