"""What one float run tells: means of products, sensitivities in two halves, and the shifts that follow."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import CALIBRATION_TABLE, Module
from tpuc_driver.api.host import PortableModule, inputs_of, open_pool, open_samples
from tpuc_ops import top
from tpuc_quantize.calibration.observation import MANY_ELEMENTS, ObserveJob, Tuning
from tpuc_quantize.calibration.output_sensitivity import Weigher
from tpuc_quantize.importing.import_calibration import ImportCalibration
from tpuc_quantize.importing.propagate_calibration import PropagateCalibration
from tpuc_quantize.metrics.taps import Measure
from tpuc_quantize.remedies.bias_correction import filter_shifts, find_shifts, observe
from tpuc_quantize.simulation.grids import BLOCK_ELEMENTS, stored_filters
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.simulation.output_slots import output_slots
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each
from tests.passes.graphs import CONTEXT, Network

Array = NDArray[Any]


def calibrated(module: Module, threshold: float = 32.0) -> Module:
    """Every value with the same threshold."""
    names = [value.name for operation in module.main.operations for value in operation.results if value.name]
    entries = {name: TensorThreshold(threshold, -threshold, threshold) for name in names}
    copy = module.clone()
    context = dataclasses.replace(CONTEXT, results={CALIBRATION_TABLE: CalibrationTable(entries)})
    ImportCalibration().run(copy, context)
    PropagateCalibration().run(copy, context)
    return copy


def _windows(x: Array, weight: Array, op: top.Conv) -> Array:
    """A convolution by its definition, tap by tap in float64."""
    (upper, left, bottom, right), (sh, sw), (dh, dw) = op.pads, op.strides, op.dilations
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (upper, bottom), (left, right)))
    depth, share = weight.shape[1], weight.shape[0] // op.group
    oh = (x.shape[2] - dh * (weight.shape[2] - 1) - 1) // sh + 1
    ow = (x.shape[3] - dw * (weight.shape[3] - 1) - 1) // sw + 1
    result = np.zeros((x.shape[0], weight.shape[0], oh, ow))
    for channel in range(weight.shape[0]):
        first = channel // share * depth
        for place in np.ndindex(oh, ow):
            rows = slice(place[0] * sh, place[0] * sh + dh * (weight.shape[2] - 1) + 1, dh)
            columns = slice(place[1] * sw, place[1] * sw + dw * (weight.shape[3] - 1) + 1, dw)
            taps = x[:, first : first + depth, rows, columns]
            result[:, channel, place[0], place[1]] = (taps * weight[channel]).sum(axis=(1, 2, 3))
    return result


@each(
    "op",
    [
        top.Conv(kernel_shape=(1, 1)),
        top.Conv(kernel_shape=(3, 3), strides=(2, 1), pads=(1, 0, 2, 1), do_relu=True),
        top.Conv(kernel_shape=(3, 2), dilations=(2, 1), group=2),
    ],
    ids=["plain", "strides and pads", "dilations and groups"],
)
def test_means_of_a_convolution(op: top.Conv) -> None:
    net = Network(1, 4, 9, 8)
    module = net.finish(net.op(op, net.input, net.weight(6, 4 // op.group, *op.kernel_shape), net.weight(6)))
    x = np.random.default_rng(0).standard_normal((1, 4, 9, 8)).astype(np.float32)
    weight, bias = (module.weights[name].astype(np.float64) for name in module.weights)
    (means,) = observe(FakeNetwork(calibrated(module)), {"v0": x}).values()
    expected = _windows(x, weight, op).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(means.result, expected + bias.reshape(-1), rtol=0, atol=1e-6)  # weights are float32
    scale = np.abs(weight).max(axis=(1, 2, 3), keepdims=True) / 127
    lost = _windows(x, weight - np.rint(weight / scale) * scale, op).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(means.lost, lost, rtol=0, atol=1e-6)


def test_means_of_a_matrix_product() -> None:
    net = Network(5, 8)
    module = net.finish(net.op(top.MatMul(), net.input, net.weight(8, 3), net.weight(3)))
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    weight, bias = (module.weights[name].astype(np.float64) for name in module.weights)
    (means,) = observe(FakeNetwork(calibrated(module)), {"v0": x}).values()
    np.testing.assert_allclose(means.result, (x @ weight).mean(axis=0) + bias.reshape(-1), rtol=0, atol=1e-6)


def test_shifts_take_the_mean_error_out(tmp_path: Path) -> None:
    net = Network(1, 3, 8, 8)
    value = net.op(top.Conv(kernel_shape=(3, 3), do_relu=True), net.input, net.weight(8, 3, 3, 3), net.weight(8))
    module = net.finish(net.op(top.Conv(kernel_shape=(3, 3)), value, net.weight(4, 8, 3, 3), net.none))
    random = np.random.default_rng(0)
    samples = [{"v0": random.uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)} for _ in range(6)]
    fake = FakeNetwork(calibrated(module))
    seen = [observe(fake, sample) for sample in samples]
    with open_pool(0) as pool:
        shifts = find_shifts(fake, samples, seen, pool, lambda steps, *_: steps)
    assert shifts.keys() == filter_shifts(seen).keys()
    last = fake.plan.steps[-1].results[0] if fake.plan.steps[-1].results else fake.plan.outputs[0][1]

    def mean(net: FakeNetwork, *, integer: bool) -> Array:
        runs = [net.run(sample, integer=integer).values[last] for sample in samples]
        return np.mean([one for one in runs if one is not None], axis=(0, 1, 3, 4))

    plain = FakeNetwork(calibrated(module))
    wanted = mean(plain, integer=False)
    before, after = np.abs(mean(plain, integer=True) - wanted), np.abs(mean(fake, integer=True) - wanted)
    step = 32.0 / 128
    # The result itself is rounded after the shift, 36 places of 6 samples: its mean is off by a small part of a step.
    assert after.max() < 0.15 * step
    assert after.mean() < before.mean()


def test_large_networks_are_weighed_in_halves_with_the_same_result(tmp_path: Path) -> None:
    size = 5 << 7
    net = Network(1, 4, size, size)
    value = net.op(top.SiLU(), net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(4, 4, 1, 1), net.none))
    value = net.op(top.SiLU(), net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(4, 4, 1, 1), net.none))
    module = calibrated(net.finish(net.op(top.Conv(kernel_shape=(1, 1)), value, net.weight(2, 4, 1, 1), net.none)))
    fake = FakeNetwork(module)
    assert sum(value.tensor.size for step in fake.plan.steps for value in step.operation.results) > MANY_ELEMENTS
    x = np.random.default_rng(0).uniform(-1, 1, (1, 4, size, size)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    limits = dict.fromkeys(fake.plan.names.values(), 8.0)
    powers = dict.fromkeys(limits, 1.0)
    measure = Measure(tuple(output_slots(fake)))
    tuning = Tuning((0,), frozenset(), measure, {}, {}, limits, powers)
    samples = open_samples(inputs_of(module), tmp_path / "x.npy")
    (found,) = ObserveJob(PortableModule(module, CONTEXT.registry), samples, frozenset(), tuning).prepare()(range(1))
    state = fake.run({"v0": x}, integer=False, keep=True)
    whole = Weigher(fake, measure, limits, powers).weigh(iter([(0, state)]), 0)
    assert found.importance.keys() == whole.keys()
    for name, one in whole.items():
        assert np.array_equal(found.importance[name].squares, one.squares)
        assert np.array_equal(found.importance[name].sums, one.sums)


@each(("op", "axis"), [(top.Conv(kernel_shape=(1, 1)), 0), (top.MatMul(), 1)])
def test_filters_of_any_size_are_rounded_to_nearest(op: Any, axis: int) -> None:
    shape = (BLOCK_ELEMENTS // 64, 100) if axis else (100, BLOCK_ELEMENTS // 64, 1, 1)
    filters = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    integers, scales = stored_filters(op, filters)
    others = tuple(n for n in range(filters.ndim) if n != axis)
    exact = np.abs(filters).max(axis=others, keepdims=True).astype(np.float64) / 127
    assert np.array_equal(scales, exact.astype(np.float32))
    assert np.array_equal(integers, np.rint(filters / exact))
