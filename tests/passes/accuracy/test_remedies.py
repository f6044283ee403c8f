"""Remedies keep the float network as it is and bring the integer one nearer to it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Module
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_optimize.channel_links import find_links, reader_ranges, writer_ranges
from tpuc_quantize.remedies.bias_correction import apply_shifts
from tpuc_quantize.scaling.equalize_weights import EqualizeWeights
from tpuc_quantize.scaling.migrate_outliers import MigrateOutliers
from tpuc_quantize.tables.annotations import annotation_lines, parse_annotations

from tests.passes.graphs import CONTEXT, Network, assert_equal, draw_network, run


def chain() -> Module:
    """Two convolutions and a depthwise one, with a relu and a pool between; one channel is far too large."""
    net = Network(1, 3, 8, 8)
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, net.weight(6, 3, 3, 3), net.weight(6))
    value = net.op(top.MaxPool(kernel_shape=(2, 2)), value)
    value = net.op(top.Conv(kernel_shape=(1, 1), group=6, do_relu=True), value, net.weight(6, 1, 1, 1), net.weight(6))
    value = net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(4, 6, 1, 1), net.none)
    module = net.finish(value)
    first = next(name for name in module.weights if module.weights[name].shape == (6, 3, 3, 3))
    module.weights[first] = module.weights[first] * np.array([100, 1, 1, 1, 1, 0.01], np.float32).reshape(6, 1, 1, 1)
    return module


def test_equalized_filters_have_equal_ranges_and_the_network_is_the_same() -> None:
    module = chain()
    before = run(module)
    assert EqualizeWeights().run(module, CONTEXT)
    assert_equal(module, before)
    links = list(find_links(module))
    assert len(links) == 2
    for link in links:
        np.testing.assert_allclose(writer_ranges(module, link), reader_ranges(module, link), rtol=0.03)


def test_a_channel_that_is_a_bias_stays_what_it_is() -> None:
    """Its filters say nothing about how large it is: scaled up like them it would take all of a tensor's steps."""
    net = Network(1, 3, 4, 4)
    value = net.op(top.Conv(kernel_shape=(1, 1), do_relu=True), net.input, net.weight(4, 3, 1, 1), net.weight(4))
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(4, 4, 1, 1), net.none))
    filters, bias, _ = module.weights
    dead = np.array([1e-9, 1, 1, 1], np.float32).reshape(4, 1, 1, 1)
    module.weights[filters] = module.weights[filters] * dead
    module.weights[bias] = np.full(4, 0.5, np.float32)
    before = run(module)
    EqualizeWeights().run(module, CONTEXT)
    assert_equal(module, before)
    assert max(float(np.abs(module.weights[name]).max()) for name in module.weights) < 4


def test_a_relu_with_a_limit_stops_equalization() -> None:
    net = Network(1, 3, 4, 4)
    limited = top.Conv(kernel_shape=(1, 1), do_relu=True, relu_limit=6.0)
    value = net.op(limited, net.input, net.weight(4, 3, 1, 1), net.none)
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(4, 4, 1, 1), net.none))
    assert not EqualizeWeights().run(module, CONTEXT)


def test_migration_moves_the_outlier_and_the_network_is_the_same(tmp_path: Path) -> None:
    net = Network(1, 8)
    left = net.op(top.MatMul(), net.input, net.weight(8, 8), net.weight(8))
    module = net.finish(net.op(top.MatMul(), left, net.weight(8, 4), net.none))
    name = next(iter(module.weights))
    module.weights[name] = module.weights[name] * np.array([50, *(1,) * 7], np.float32)
    before = run(module)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).uniform(-1, 1, (16, 8)).astype(np.float32))
    assert MigrateOutliers(dataset=str(tmp_path / "x.npy")).run(module, CONTEXT)
    assert_equal(module, before)
    (link,) = find_links(module)
    assert np.ptp(np.log(writer_ranges(module, link))) < np.log(50) / 1.5


@given(st.data())
def test_equalization_keeps_any_network(data: st.DataObject) -> None:
    module = draw_network(data)
    before = run(module)
    EqualizeWeights(rounds=2).run(module, CONTEXT)
    assert_equal(module, before)


def test_bias_shifts_survive_text_and_leave_float_layers_alone() -> None:
    shifts = {"conv a": np.array([1.0, -0.1, 3e-9], np.float32), "b": np.array([0.5], np.float32)}
    back = parse_annotations(annotation_lines(shifts), {"b": 1, "conv a": 3})
    assert {name: array.tolist() for name, array in back.items()} == {n: a.tolist() for n, a in shifts.items()}
    with pytest.raises(ValueError, match="no op with this number of channels"):
        parse_annotations(["b 1 2"], {"b": 1})
    module = chain()
    name = module.main.operations[-2].name
    before = run(module)
    assert not apply_shifts(module, {name: np.ones(4, np.float32)}, [name])
    assert apply_shifts(module, {name: np.ones(4, np.float32)})
    after = run(module)
    np.testing.assert_allclose(after.outputs[name], before.outputs[name] + 1, rtol=0, atol=1e-4)


def test_calibration_notes_the_shifts_and_the_lowering_takes_them(tmp_path: Path) -> None:
    module = chain()
    np.save(tmp_path / "x.npy", np.random.default_rng(0).uniform(-1, 1, (16, 1, 3, 8, 8)).astype(np.float32))
    with_shifts = Session().calibrate(module, dataset=tmp_path / "x.npy")
    without = Session().calibrate(module, dataset=tmp_path / "x.npy", options={"bias_num": 0})
    assert len(with_shifts.sections["bias_shift"]) == 3
    assert with_shifts.entries == without.entries
    assert list(without.sections) == ["calibrated_on"]
