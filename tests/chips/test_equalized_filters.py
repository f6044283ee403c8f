"""Calibration equalizes filters where that brings outputs nearer to float, and what is compiled follows its table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import LAYER_ERRORS, QUANTIZED, SAMPLES, CalibrationError, Module, TpucError
from tpuc.interpreter import Interpreter
from tpuc.ir.channel_factors import ATTRIBUTE, state_factors, stated_factors
from tpuc.npz import write_npz
from tpuc_accuracy.analysis.split_error import SplitError
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.scaling.move_factors import FACTORS, annotated_factors, move_factors

from tests.passes.graphs import Network

Array = NDArray[Any]
CHIPS = [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]
SPREAD = np.geomspace(1000, 0.001, 8).astype(np.float32)
"""By so much the channels between two convolutions differ, which int8 of one scale cannot hold."""
SAMPLES_GIVEN: Array = np.random.default_rng(0).uniform(-1, 1, (24, 1, 3, 8, 8)).astype(np.float32)


def spread_network() -> Module:
    """Convolutions of eight channels with a pool between; the first divides its channels by what the second takes."""
    net = Network(1, 3, 8, 8)
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, net.weight(8, 3, 3, 3), net.weight(8))
    value = net.op(top.MaxPool(kernel_shape=(2, 2)), value)
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(5, 8, 1, 1), net.none))
    move_factors(module, {"v3": SPREAD})
    del module.attributes[ATTRIBUTE]
    return module


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "x.npy"
    np.save(path, SAMPLES_GIVEN)
    return path


@pytest.fixture(scope="module")
def table(samples: Path) -> Any:
    return Session().calibrate(spread_network(), dataset=samples)


def test_the_table_notes_the_factors_and_says_why(table: Any) -> None:
    (noted,) = table.sections[FACTORS]
    assert noted.startswith("v3 ")
    found = annotated_factors(spread_network(), table)["v3"]
    ratios = found * SPREAD
    assert ratios.max() / ratios.min() < 10  # the network as drawn has filters of one size
    assert any("filters equalized, by factors of 1 values" in remark for remark in table.remarks)


def test_a_network_that_gains_little_stays_as_it_is(samples: Path) -> None:
    module = spread_network()
    move_factors(module, {"v3": 1 / SPREAD})
    del module.attributes[ATTRIBUTE]
    assert FACTORS not in Session().calibrate(module, dataset=samples).sections


def test_untuned_tables_keep_filters_as_they_are(samples: Path) -> None:
    assert FACTORS not in Session().calibrate(spread_network(), dataset=samples, options={"tune_num": 0}).sections


@pytest.mark.parametrize("chip", CHIPS)
def test_the_compiled_network_is_nearer_and_every_value_fits(
    chip: str, table: Any, samples: Path, tmp_path: Path
) -> None:
    """Values are compared as they are in the network as given, with the network and with numbers that a file states."""
    module, session = spread_network(), Session(chip=chip, quantize="int8")
    sample, reference = tmp_path / "sample.npz", tmp_path / "reference.npz"
    write_npz(sample, {"v0": SAMPLES_GIVEN[0]})
    exact = Interpreter(module).run({"v0": SAMPLES_GIVEN[0]}, "all")
    write_npz(reference, exact)
    for given in (None, reference):
        report = session.deploy(
            module,
            tmp_path / "network",
            calibration_table=table,
            test_input=[sample],
            test_reference=given,
            tolerance=(0.99, 0.9),
        )
        assert report.comparisons[0].tensors >= 3
    without = replace(table, sections={})
    with pytest.raises(TpucError, match="below the tolerance"):
        session.deploy(
            module, tmp_path / "network", calibration_table=without, test_input=[sample], tolerance=(0.99, 0.9)
        )


@pytest.mark.parametrize("chip", CHIPS)
def test_layers_are_compared_with_the_network_that_was_quantized(chip: str, table: Any, tmp_path: Path) -> None:
    """Also when the compiled one comes from a file."""
    module, session = spread_network(), Session(chip=chip, quantize="int8")
    lowered: list[Module] = []
    session.build(module, table, after_lowering=lambda one: lowered.append(one.clone()))
    session.save(lowered[0], tmp_path / "lowered.mlir")
    back = session.load(tmp_path / "lowered.mlir")
    assert {name: array.shape for name, array in stated_factors(back).items()} == {"v3": (8, 1, 1), "v4": (8, 1, 1)}
    context = session.context({QUANTIZED: back, SAMPLES: [{"v0": one} for one in SAMPLES_GIVEN[:4]]})
    SplitError().run(module, context)
    errors = {error.name: error for error in context.result(LAYER_ERRORS)}
    assert {"v3", "v4"} <= set(errors)
    assert min(error.cosine for error in errors.values()) > 0.999
    assert all(error.local < 1e-2 * error.signal for error in errors.values() if error.is_split)


def test_factors_of_another_network_are_refused(table: Any, tmp_path: Path) -> None:
    other = replace(table, sections={FACTORS: ("v3 1 2 3",)})
    with pytest.raises(CalibrationError, match="factors per channel do not fit module 'network'"):
        annotated_factors(spread_network(), other)


def test_what_values_mean_is_what_they_are_times_their_factors() -> None:
    module = spread_network()
    before = Interpreter(module).run({"v0": SAMPLES_GIVEN[0]}, "all")
    move_factors(module, {"v3": np.array([4, 1, 1, 1, 1, 1, 1, 0.5], np.float32)})
    after = Interpreter(module).run({"v0": SAMPLES_GIVEN[0]}, "all")
    assert not np.allclose(after["v3"], before["v3"], rtol=0.1)
    np.testing.assert_allclose(after["v3"] * stated_factors(module)["v3"], before["v3"], rtol=1e-5)


def test_factors_are_attributes_that_text_keeps(tmp_path: Path) -> None:
    module = spread_network()
    state_factors(module, {"a b;1": np.array([0.1, 3e-9], np.float32).reshape(2, 1, 1), "c": np.array([7], np.float32)})
    Session().save(module, tmp_path / "a.mlir")
    back = stated_factors(Session().load(tmp_path / "a.mlir"))
    assert {name: array.tolist() for name, array in back.items()} == {
        name: array.tolist() for name, array in stated_factors(module).items()
    }
