"""Mixed-precision search and error split on networks that this chip runs."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tpuc.api import LAYER_ERRORS, QUANTIZED, SAMPLES
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc_accuracy.analysis.layer_errors import CAUSES
from tpuc_accuracy.analysis.split_error import SplitError
from tpuc_accuracy.mixed_precision.timed_search import search_quantize_table
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_quantize.metrics.agreement import Agreement

from tests.models.networks import Network


def test_a_search_is_the_same_for_two_workers(network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip="bm1684x", quantize="int8")
    dataset = str(net.path.parent / "digits_calib.npz")
    options = {"dataset": dataset, "input_num": 4, "max_float_layers": 2}
    one = search_quantize_table(session, net.module, net.table, options=options, latencies=True)
    two = search_quantize_table(session, net.module, net.table, options={**options, "workers": 2}, latencies=True)
    assert one.layers == two.layers
    assert one.points == two.points
    assert all(point.milliseconds for point in one.points)
    assert one.points[0].floats == ()
    assert [layer.loss for layer in one.layers] == sorted((layer.loss for layer in one.layers), reverse=True)


@pytest.mark.parametrize("name", ["digits", "resnet8"])
def test_the_parts_of_an_error_add_up(name: str, network: Callable[[str], Network], tmp_path: Path) -> None:
    net = network(name)
    session = Session(chip="bm1684x", quantize="int8")
    (spec,) = inputs_of(net.module)
    np.savez(tmp_path / "samples.npz", **{spec.name: net.images[:32].reshape(-1, *spec.shape)})
    table = session.calibrate(net.module, dataset=tmp_path / "samples.npz", options={"bias_num": 0})
    lowered: list[Module] = []
    session.build(net.module, table, after_lowering=lambda module: lowered.append(module.clone()))
    context = session.context({QUANTIZED: lowered[0], SAMPLES: [net.inputs(index) for index in range(32)]})
    SplitError().run(net.module, context)
    errors = [error for error in context.result(LAYER_ERRORS) if error.is_split and error.local]
    assert len(errors) >= 4
    for error in errors:
        parts = sum(error.parts[cause] for cause in CAUSES)
        assert parts + error.cross == pytest.approx(error.local)
        assert parts == pytest.approx(error.local, rel=0.1), error.name
        assert error.remedy


def test_kept_decisions_stand_beside_the_output_that_makes_them(network: Callable[[str], Network]) -> None:
    """With thresholds that ruin the network, so that some are lost; counted here by the largest logit of each image."""
    net = network("digits")
    session = Session(chip="bm1684x", quantize="int8")
    table = copy.deepcopy(net.table)
    assert table is not None
    for name, entry in table.entries.items():
        table.entries[name] = dataclasses.replace(entry, threshold=entry.threshold / 6)
    lowered: list[Module] = []
    session.build(net.module, table, after_lowering=lambda module: lowered.append(module.clone()))
    rows = [net.inputs(index) for index in range(60)]
    context = session.context({QUANTIZED: lowered[0], SAMPLES: rows})
    SplitError().run(net.module, context)
    (name,), runs = Interpreter(net.module).output_names, []
    for module in (net.module, lowered[0]):
        host = Interpreter(module)
        runs.append([int(host.run(row)[host.output_names[0]].argmax()) for row in rows])
    same = sum(a == b for a, b in zip(*runs, strict=True))
    assert same < 60
    kept = {one.name: one.kept for one in context.result(LAYER_ERRORS)}
    assert kept.pop(name) == Agreement(same, 60)
    assert set(kept.values()) == {None}


def test_what_a_result_cuts_off_is_clipping(network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip="bm1684x", quantize="int8")
    table = copy.deepcopy(net.table)
    name = next(one.name for one in net.module.main.operations if isinstance(one.op, top.Conv))
    assert table is not None
    table.entries[name] = dataclasses.replace(table.entries[name], threshold=table.entries[name].threshold / 8)
    lowered: list[Module] = []
    session.build(net.module, table, after_lowering=lambda module: lowered.append(module.clone()))
    context = session.context({QUANTIZED: lowered[0], SAMPLES: [net.inputs(index) for index in range(4)]})
    SplitError().run(net.module, context)
    (error,) = [one for one in context.result(LAYER_ERRORS) if one.name == name]
    assert error.cause == "activation clipping"
    assert error.remedy.startswith("raise its thresholds")


def test_short_floats_lose_by_their_filters_and_by_their_results(network: Callable[[str], Network]) -> None:
    net = network("digits")
    session = Session(chip="bm1684x", quantize="bf16")
    lowered: list[Module] = []
    session.build(net.module, None, after_lowering=lambda module: lowered.append(module.clone()))
    context = session.context({QUANTIZED: lowered[0], SAMPLES: [net.inputs(index) for index in range(4)]})
    SplitError().run(net.module, context)
    products = [error for error in context.result(LAYER_ERRORS) if error.parts["weight rounding"]]
    assert len(products) == sum(isinstance(one.op, (top.Conv, top.MatMul)) for one in net.module.main.operations)
    for error in products:
        assert error.parts["weight rounding"] + error.parts["requantization"] == pytest.approx(error.local, rel=0.3)
        assert error.remedy.startswith("it is computed in bf16: f16 or f32 is more exact")
