"""Thresholds per channel: which values may have them, what they cost, and what they do where ranges differ much."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import (
    CALIBRATION_TABLE,
    F32,
    LAYER_ERRORS,
    QUANTIZE_TABLE,
    QUANTIZED,
    SAMPLES,
    Calibrated,
    Module,
    PassContext,
    ResultKey,
    ScalarType,
    Uniform,
    UniformPerAxis,
    Value,
)
from tpuc.errors import CalibrationError
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc.schedule import PassManager
from tpuc_accuracy.analysis.split_error import SplitError
from tpuc_accuracy.mixed_precision.search import Source
from tpuc_accuracy.mixed_precision.sensitivity import (
    MixedJob,
    SensitivityJob,
    candidates,
    rounded,
    sources,
    total,
    ways,
)
from tpuc_driver.data import SampleReader, inputs_of, open_samples
from tpuc_driver.session import Session
from tpuc_driver.work import PortableModule
from tpuc_lower.lowering.cells import Cells
from tpuc_ops import top
from tpuc_ops.quant.products import quantize_product
from tpuc_quantize.remedies.channel_thresholds import BINS, CHANNEL_THRESHOLDS, bin_costs, choose_channels, eligible
from tpuc_quantize.remedies.scale_channels import annotated_elements
from tpuc_quantize.simulation.grids import ChannelGrid
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.table import CalibrationTable, format_table, parse_table

from tests.passes.graphs import Network

U8 = ScalarType("u8")
CHANNELS = 8
RANGES = np.array([100.0, 60.0, 30.0, 1.0, 0.5, 0.2, 0.1, 0.05])


def set_filters(module: Module, value: Value, filters: NDArray[Any]) -> None:
    module.weights[value.name] = filters.astype(np.float32)


def network() -> tuple[Module, dict[str, str]]:
    """Convolution, SiLU, depthwise convolution, SiLU, convolution; the first one's channels differ 2000 times in range,
    and all of them count alike in the end.
    """
    random = np.random.default_rng(3)
    net = Network(1, 3, 12, 12)
    first, depthwise, last = net.weight(CHANNELS, 3, 3, 3), net.weight(CHANNELS, 1, 3, 3), net.weight(4, CHANNELS, 1, 1)
    spread = RANGES.reshape(-1, 1, 1, 1)
    set_filters(net.module, first, random.normal(0, 0.1, (CHANNELS, 3, 3, 3)) * spread)
    set_filters(net.module, depthwise, random.normal(0, 1, (CHANNELS, 1, 3, 3)) / spread)
    set_filters(net.module, last, random.normal(0, 1, (4, CHANNELS, 1, 1)))
    conv = net.op(top.Conv(kernel_shape=(3, 3), pads=(1, 1, 1, 1)), net.input, first, net.none)
    silu = net.op(top.SiLU(), conv)
    op = top.Conv(kernel_shape=(3, 3), pads=(1, 1, 1, 1), group=CHANNELS)
    second = net.op(op, silu, depthwise, net.none)
    result = net.op(top.SiLU(), second)
    module = net.finish(net.op(top.Conv(kernel_shape=(1, 1)), result, last, net.none))
    names = {"conv": conv.name, "silu": silu.name, "depthwise": second.name, "last": result.name}
    return module, names


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Module, dict[str, str], CalibrationTable]:
    folder = tmp_path_factory.mktemp("channels")
    module, names = network()
    np.savez(folder / "x.npz", v0=images(24))
    return module, names, Session().calibrate(module, dataset=folder / "x.npz")


def images(count: int, seed: int = 1) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal((count, 1, 3, 12, 12)).astype(np.float32)


def lower(module: Module, table: CalibrationTable, chip: str = "bm1684x", floats: dict[str, str] | None = None) -> Any:
    """The int8 module, before memory is planned."""
    lowered = module.clone()
    results: dict[ResultKey[Any], Any] = {CALIBRATION_TABLE: table, QUANTIZE_TABLE: dict(floats or {})}
    manager = PassManager(Session(chip=chip, quantize="int8").context(results))
    for stage in ("calibrate", "lower"):
        manager.run_pipeline(stage, lowered)
    return lowered


def decibels(module: Module, lowered: Module) -> float:
    signal = noise = 0.0
    (name,), (other,) = (Interpreter(one).output_names for one in (module, lowered))
    kind = types_of(lowered)[other]
    for x in images(6, seed=2):
        wanted = Interpreter(module).run({"v0": x})[name].astype(np.float64)
        got = real_values(Interpreter(lowered).run({"v0": x})[other], kind)
        signal, noise = signal + float((wanted**2).sum()), noise + float(((wanted - got) ** 2).sum())
    return float(10 * np.log10(signal / noise))


def without(table: CalibrationTable) -> CalibrationTable:
    return dataclasses.replace(
        table, sections={name: lines for name, lines in table.sections.items() if name != CHANNEL_THRESHOLDS}
    )


class TestEligible:
    def module(self, module: Module) -> Module:
        for operation in module.main.operations[:-1]:
            for value in operation.results:
                if value.name.startswith("v"):
                    value.type = value.tensor.with_element(Calibrated(value.tensor.storage, -1.0, 1.0))
        return module

    def test_they_lie_around_functions_and_before_depthwise_convolutions(self) -> None:
        module, names = network()
        found = [value.name for value in eligible(self.module(module))]
        assert found == [names["conv"], names["silu"], names["depthwise"]]  # the last SiLU is read by a full one

    def test_not_next_to_floats_and_only_between_known_ops(self) -> None:
        module, names = network()
        self.module(module)
        assert [value.name for value in eligible(module, {names["silu"]})] == [names["depthwise"]]
        assert list(eligible(module, (), lambda operation: operation.op.name == "top.Conv")) == []

    def test_not_where_something_else_reads_them(self) -> None:
        net = Network(1, 4, 6, 6)
        conv = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(4, 4, 1, 1), net.none)
        module = net.finish(net.op(top.Add(), net.op(top.SiLU(), conv), conv))
        assert list(eligible(self.module(module))) == []


class TestThresholds:
    def test_each_channel_gets_that_of_its_own_range(self) -> None:
        random = np.random.default_rng(0)
        value = random.uniform(-1, 1, (1, CHANNELS, 50, 50)).astype(np.float32) * RANGES.reshape(1, -1, 1, 1)
        costs = bin_costs(value.astype(np.float32), np.ones(value.shape, np.float32), 100.0)
        assert costs.shape == (CHANNELS, BINS)
        assert costs.sum(axis=1) == pytest.approx([2500] * CHANNELS)
        found = choose_channels(costs, 100.0, 100.0, signed=True)
        wanted = np.maximum(RANGES, 100 / 256)  # nothing below the 256th part of the tensor's
        assert np.all(found >= 0.95 * wanted)
        assert np.all(found <= 1.6 * wanted)

    def test_what_answers_do_not_feel_may_be_cut_off(self) -> None:
        value = np.linspace(-40, 4, 4000, dtype=np.float32).reshape(1, 1, 40, 100)
        gradient = (value > -4).astype(np.float32)  # as behind a SiLU
        found = choose_channels(bin_costs(value, gradient, 40.0), 40.0, 40.0, signed=True)
        assert 3.9 <= found[0] <= 6.0

    def test_a_channel_without_values_keeps_the_threshold_of_the_tensor(self) -> None:
        assert choose_channels(np.zeros((2, BINS), np.float32), 8.0, 5.0, signed=True).tolist() == [5.0, 5.0]


def test_a_grid_with_several_scales_rounds_each_channel_with_its_own() -> None:
    grid = ChannelGrid(1.0, -128, 127, 0, (1.0, 0.25))
    x = np.array([0.6, 200.0, 0.6, 200.0], np.float32).reshape(1, 2, 1, 2)
    assert grid.round(x).reshape(-1).tolist() == [1.0, 127.0, 0.5, 31.75]
    assert grid.clip(x).reshape(-1).tolist() == pytest.approx([0.6, 127.0, 0.6, 31.75])


def test_filters_of_depthwise_convolutions_take_in_the_scales_of_their_channels() -> None:
    source = UniformPerAxis(U8, F32, 1, (0.5, 0.125), (0, 0))
    result = UniformPerAxis(U8, F32, 1, (1.0, 0.5, 0.25, 2.0), (0,) * 4)
    filters = np.array([127.0, 127.0, 254.0, 254.0]).reshape(4, 1, 1, 1)  # steps 1, 1, 2, 2
    product = quantize_product(filters, np.array([1.0, 2.0, 3.0, 4.0]), source, result)
    factors = np.array(product.multipliers) / np.exp2(product.right_shifts)
    assert factors.tolist() == [0.5, 1.0, 1.0, 0.125]
    assert product.bias is not None
    assert product.bias.tolist() == [2, 4, 12, 16]


@pytest.mark.chip("bm1684x")
class TestNetwork:
    def test_it_is_calibrated_with_thresholds_per_channel_and_gains_by_them(self, calibrated: Any) -> None:
        module, names, table = calibrated
        lowered = lower(module, table)
        types = types_of(lowered)
        wide = [name for name, type_ in types.items() if isinstance(type_.element, UniformPerAxis)]
        assert wide == [names["conv"], names["silu"], names["depthwise"]]
        assert decibels(module, lowered) > decibels(module, lower(module, without(table))) + 6

    def test_the_table_reads_back_as_it_is(self, calibrated: Any) -> None:
        _, _, table = calibrated
        assert parse_table(format_table(table)).sections == table.sections

    def test_values_next_to_float_layers_keep_one_scale(self, calibrated: Any) -> None:
        module, names, table = calibrated
        types = types_of(lower(module, table, floats={names["silu"]: "f32"}))
        assert isinstance(types[names["conv"]].element, Uniform)
        assert isinstance(types[names["depthwise"]].element, UniformPerAxis)

    def test_float_modes_and_chips_that_cannot_leave_them_out(self, calibrated: Any) -> None:
        module, _, table = calibrated
        assert self.count(module, table, "bm1684x", "f16") == 0
        session = Session(chip="bm1684x", quantize="int8")
        ranged = module.clone()
        PassManager(session.context({CALIBRATION_TABLE: table})).run_pipeline("calibrate", ranged)
        cells = Cells.of(session.context({}), "test")
        assert len(annotated_elements(ranged, table, cells, ())) == 3
        assert annotated_elements(ranged, table, dataclasses.replace(cells, mode="f16"), ()) == {}

    def test_with_zero_points_elsewhere_they_have_none(self, calibrated: Any) -> None:
        module, _, table = calibrated
        assert self.count(module, table, "bm1684x", "int8-asym") == 3

    def count(self, module: Module, table: CalibrationTable, chip: str, mode: str) -> int:
        lowered = module.clone()
        manager = PassManager(Session(chip=chip, quantize=mode).context({CALIBRATION_TABLE: table}))
        for stage in ("calibrate", "lower") if mode.startswith("int8") else ("lower",):
            manager.run_pipeline(stage, lowered)
        return sum(isinstance(type_.element, UniformPerAxis) for type_ in types_of(lowered).values())

    def test_two_processes_give_the_same_table(self, calibrated: Any, tmp_path: Path) -> None:
        module, _, table = calibrated
        np.savez(tmp_path / "x.npz", v0=images(24))
        other = Session().calibrate(module, dataset=tmp_path / "x.npz", options={"workers": 2})
        assert format_table(other) == format_table(table)

    def test_the_simulator_computes_the_same(self, calibrated: Any) -> None:
        module, _, table = calibrated
        session = Session(chip="bm1684x", quantize="int8")
        lowered, data, *_ = session.build(module, table)
        x = {"v0": images(1, seed=5)[0]}
        got, wanted = session.chip.load(data).run(x), Interpreter(lowered).run(x)
        assert [np.array_equal(got[name], wanted[name].reshape(got[name].shape)) for name in got] == [True]

    def test_comparing_knows_what_they_mean(self, calibrated: Any) -> None:
        module, names, table = calibrated
        lowered = lower(module, table)
        results = {QUANTIZED: lowered, SAMPLES: [{"v0": x} for x in images(2, seed=7)]}
        context: PassContext = Session(chip="bm1684x", quantize="int8").context(results)
        SplitError().run(module, context)
        errors = {one.name: one for one in context.result(LAYER_ERRORS)}
        assert all(errors[names[key]].cosine > 0.999 for key in ("conv", "silu", "depthwise"))
        assert all(errors[names[key]].is_split for key in ("conv", "silu", "depthwise"))

    def test_notes_of_another_network_are_an_error(self, calibrated: Any) -> None:
        module, _, table = calibrated
        foreign = dataclasses.replace(table, sections={CHANNEL_THRESHOLDS: ("v2 1 2 3",)})
        with pytest.raises(CalibrationError, match=r"thresholds per channel do not fit module 'network'.*calibrate it"):
            lower(module, foreign)

    def mixed(self, calibrated: Any, folder: Path, choices: Sequence[tuple[str, ...]]) -> tuple[FakeNetwork, MixedJob]:
        module, _, table = calibrated
        session = Session(chip="bm1684x", quantize="int8")
        ranged = module.clone()
        context = session.context({CALIBRATION_TABLE: table})
        PassManager(context).run_pipeline("calibrate", ranged)
        np.savez(folder / "y.npz", v0=images(2, seed=9))
        elements = annotated_elements(ranged, table, Cells.of(context, "test"), ())
        samples = open_samples(inputs_of(module), folder / "y.npz", None)
        network = PortableModule(ranged, context.registry)
        rest = (
            session.chip.description,
            "int8",
            frozenset[str](),
            {},
            elements,
            frozenset[str](),
        )
        job = MixedJob(network, samples, *rest, choices=tuple(map(frozenset, choices)))
        return job.open()[0], job

    def test_layers_go_float_with_those_that_share_scales_per_channel(self, calibrated: Any, tmp_path: Path) -> None:
        _, names, _ = calibrated
        net, job = self.mixed(calibrated, tmp_path, [()])
        conv, silu, depthwise, last = (names[key] for key in ("conv", "silu", "depthwise", "last"))
        around = {net.plan.names[slot]: layers for slot, layers in rounded(net).items()}
        assert around[conv] == (conv, silu)
        assert around[silu] == (silu, depthwise)
        filters = [Source(1.0, frozenset((last,)))]
        assert ways(net, filters, ()) == [(last,)]
        assert ways(net, filters, job.elements) == [(conv, silu, depthwise, last)]

    def test_noise_comes_from_values_and_filters(self, calibrated: Any, tmp_path: Path) -> None:
        _, names, _ = calibrated
        net, job = self.mixed(calibrated, tmp_path, [()])
        arguments = (job.network, job.samples, job.chip, job.mode, job.floats, job.shifts, job.elements)
        samples = SensitivityJob(*arguments).prepare()(range(2))
        scores = total([samples], len(samples[0]))
        found = sources(net, scores)
        by_layers = {source.layers: source.energy for source in found}
        assert len(found) == len(rounded(net)) + len(candidates(net)) == len(scores)
        # The noise of a value alone: what the float network makes of it when it is rounded.
        slot = next(slot for slot in rounded(net) if net.plan.names[slot] == names["silu"])
        noise = 0.0
        for index in range(2):
            sample = SampleReader(job.samples).read(index)
            state = net.run(sample, integer=False, keep=True)
            wanted, grid, array = net.outputs(state), net.grids[slot], state.values[slot]
            assert grid is not None
            assert array is not None
            state.values[slot] = grid.round(array)
            first = next(place for place, step in enumerate(net.plan.steps) if slot in step.results) + 1
            for place in range(first, len(net.plan.steps)):
                net.run_step(place, state, integer=False)
            noise += sum(float(((net.outputs(state)[name] - wanted[name]) ** 2).sum()) for name in wanted)
        assert by_layers[frozenset((names["silu"], names["depthwise"]))] == pytest.approx(noise, rel=1e-4)
        # A layer without filters makes no noise but that of its values; the two add up as far as they are independent.
        layers = [net.plan.steps[layer].operation.name for layer in candidates(net)]
        alone = scores[layers.index(names["last"])].noise
        around = sum(one.energy for one in found if names["last"] in one.layers and len(one.layers) > 1)
        assert alone == pytest.approx(around, rel=0.5)

    def test_mixed_networks_score_as_each_of_them_alone(self, calibrated: Any, tmp_path: Path) -> None:
        _, names, _ = calibrated
        choices = [(), (names["last"],), (names["silu"],), (names["depthwise"], names["last"]), tuple(names.values())]
        _, job = self.mixed(calibrated, tmp_path, choices)
        together = job.prepare()(range(2))
        for place, choice in enumerate(choices):
            _, one = self.mixed(calibrated, tmp_path, [choice])
            assert [[sample[place]] for sample in together] == one.prepare()(range(2))
        assert len({score for sample in together for score in sample}) == 2 * len(choices)

    def test_a_search_for_float_layers_uses_them(self, calibrated: Any, tmp_path: Path) -> None:
        from tpuc_accuracy.mixed_precision.timed_search import search_quantize_table

        module, _, table = calibrated
        np.savez(tmp_path / "x.npz", v0=images(6, seed=2))
        session = Session(chip="bm1684x", quantize="int8")
        options = {"dataset": str(tmp_path / "x.npz"), "input_num": 6, "max_float_layers": 1}
        both = [search_quantize_table(session, module, one, options=options) for one in (table, without(table))]
        with_channels, plain = (-found.points[0].loss for found in both)
        assert with_channels > plain + 6
        # Fake quantization is the integers' twin: the same noise up to the rounding of multipliers.
        assert with_channels == pytest.approx(decibels(module, lower(module, table)), abs=0.5)
