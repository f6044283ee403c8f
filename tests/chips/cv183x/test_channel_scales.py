"""Scales per channel around functions of one tensor: tables by lane, and products that take the scales in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tpuc.api import F32, Module, ScalarType, TensorType, UniformPerAxis
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import types_of
from tpuc_cv18.lowerings.qdm import quantize_qdm, within_reach
from tpuc_driver.session import Session
from tpuc_quantize.tables.table import CalibrationTable
from tpuc_testing.values import build_exposed

from tests.chips.cv18.steps import check_steps
from tests.passes.accuracy.test_channels import decibels, images, lower, network, without


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Module, CalibrationTable]:
    folder = tmp_path_factory.mktemp("channels")
    module, _ = network()
    np.savez(folder / "x.npz", v0=images(24))
    return module, Session().calibrate(module, dataset=folder / "x.npz")


def test_the_network_gains_by_them(calibrated: tuple[Module, CalibrationTable]) -> None:
    module, table = calibrated
    lowered = lower(module, table, "cv183x")
    assert sum(isinstance(type_.element, UniformPerAxis) for type_ in types_of(lowered).values()) == 3
    assert decibels(module, lowered) > decibels(module, lower(module, without(table), "cv183x")) + 6


def test_every_value_equals_its_evaluation(calibrated: tuple[Module, CalibrationTable]) -> None:
    module, table = calibrated
    session = Session(chip="cv183x", quantize="int8")
    final, exposed = build_exposed(session, module, table)
    x = {"v0": images(1, seed=5)[0]}
    got = session.chip.load(exposed).run(x)
    check_steps(final, {**got, **x})
    wanted = Interpreter(final).run(x)
    assert all(np.array_equal(got[name], wanted[name].reshape(got[name].shape)) for name in wanted)


def test_a_channel_that_was_seen_small_gets_a_scale_that_its_filters_reach() -> None:
    """127 * 0.999999 steps of the second channel's largest product are 0.5 * 4."""
    source = UniformPerAxis(ScalarType("i8"), F32, 1, (0.5, 0.5), (0, 0))
    wanted = TensorType((1, 2, 4, 4), UniformPerAxis(ScalarType("i8"), F32, 1, (0.25, 0.001), (0, 0)))
    filters = np.array([1.0, 4.0]).reshape(2, 1, 1, 1)
    result: Any = within_reach(wanted, filters, source).element
    assert result.scales == pytest.approx((0.25, 2.0 / 127), rel=2e-6)
    assert quantize_qdm(filters, None, source, result).filters.reshape(-1).tolist() == [127, 127]
