"""Filters rounded by what they are multiplied with: errors of weights on like operands make up for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import CALIBRATION_TABLE, CalibrationError, Module, PassContext
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.api.host import open_pool
from tpuc_lower.target.results import MODE
from tpuc_ops import top
from tpuc_quantize.remedies.round_weights import ROUNDING, RoundWeights, annotated_changes, rounding_lines
from tpuc_quantize.remedies.weight_rounding import changes_of, find_rounding
from tpuc_quantize.simulation.grids import stored_filters
from tpuc_quantize.simulation.network import FakeNetwork, Filters
from tpuc_quantize.tables.table import CalibrationTable, format_table, parse_table

from tests.families import each
from tests.passes.graphs import Network

Array = NDArray[Any]


def like_channels(count: int, *shape: int, spread: float = 0.1) -> list[Array]:
    """Samples whose channels are nearly alike."""
    random = np.random.default_rng(3)
    own = random.uniform(0.5, 1.5, (count, 1, *shape[1:]))
    return list((own + random.normal(0, spread, (count, *shape)))[:, None].astype(np.float32))


def convolution(filters: int = 8, channels: int = 6) -> Module:
    net = Network(1, channels, 6, 6)
    return net.finish(
        net.op(top.Conv(kernel_shape=(3, 3)), net.input, net.weight(filters, channels, 3, 3), net.weight(filters))
    )


def found_for(module: Module, samples: list[Array], steps: float = 127.0) -> tuple[FakeNetwork, Filters]:
    net = FakeNetwork(module)
    with open_pool(1) as pool:
        return net, find_rounding(net, [{"v0": one} for one in samples], pool, steps)


def error(module: Module, integers: Array, scales: Array, samples: list[Array]) -> float:
    """The energy that other filters change in the outputs."""
    other = module.clone()
    name = next(iter(other.weights))
    other.weights[name] = integers.astype(np.float32) * scales
    pairs = [(Interpreter(one).run({"v0": x}) for one in (module, other)) for x in samples]
    return float(sum(((a["v3"] - b["v3"]).astype(np.float64) ** 2).sum() for a, b in pairs))


def test_two_errors_of_one_sign_become_one_of_each() -> None:
    """Of 127, 0.4, 0.4 steps on equal operands the nearest integers lose 0.8; 127, 1, 0 are 0.2 too much."""
    net = Network(1, 3)
    matrix = np.array([[127.0], [0.4], [0.4]], np.float32)
    module = net.finish(net.op(top.MatMul(), net.input, net.build.weight("w", matrix), net.none))
    random = np.random.default_rng(0)
    samples = [np.array([[random.normal(), one, one]], np.float32) for one in random.uniform(0.5, 1, 12)]
    _, found = found_for(module, samples)
    ((integers, scales),) = found.values()
    assert sorted(integers.reshape(-1).tolist()) == [0, 1, 127]
    np.testing.assert_allclose(scales.reshape(-1), 1.0)


def test_independent_operands_keep_the_nearest() -> None:
    net = Network(1, 16)
    module = net.finish(net.op(top.MatMul(), net.input, net.weight(16, 4), net.none))
    samples = list(np.random.default_rng(1).normal(size=(64, 1, 16)).astype(np.float32))
    net_, found = found_for(module, samples)
    assert not changes_of(net_, found)


@each(("steps", "gain"), [(127.0, 0.5), (7.0, 0.5)])
def test_other_samples_lose_less(steps: float, gain: float) -> None:
    """In eight bits and in four: the error in the outputs is less than half of what nearest integers leave."""
    module, samples = convolution(), like_channels(32, 6, 6, 6)
    net, found = found_for(module, samples[:16], steps)
    ((index, (integers, scales)),) = found.items()
    filters = net.constant(net.plan.steps[index].operands[1])
    assert filters is not None
    nearest = np.clip(np.rint(filters / scales), -steps, steps)
    assert error(module, integers, scales, samples[16:]) < gain * error(module, nearest, scales, samples[16:])


def test_integers_are_those_that_a_chip_makes_of_the_filters() -> None:
    module = convolution()
    net, found = found_for(module, like_channels(16, 6, 6, 6))
    ((index, (integers, scales)),) = found.items()
    again, same = stored_filters(net.plan.steps[index].operation.op, integers.astype(np.float32) * scales)
    assert np.array_equal(again, integers)
    np.testing.assert_allclose(same, scales, rtol=1e-6)


def test_groups_are_rounded_apart() -> None:
    net = Network(1, 6, 6, 6)
    op = top.Conv(kernel_shape=(3, 3), group=6)
    module = net.finish(net.op(op, net.input, net.weight(6, 1, 3, 3), net.weight(6)))
    smooth = [np.repeat(np.repeat(one[:, :, ::3, ::3], 3, 2), 3, 3) for one in like_channels(32, 6, 6, 6)]
    own, found = found_for(module, smooth[:16])
    ((index, (integers, scales)),) = found.items()
    nearest = stored_filters(op, np.asarray(own.constant(own.plan.steps[index].operands[1])))[0]
    assert error(module, integers, scales, smooth[16:]) < 0.7 * error(module, nearest, scales, smooth[16:])


class TestTable:
    def test_text_keeps_the_changes(self) -> None:
        module = convolution()
        net, found = found_for(module, like_channels(16, 6, 6, 6))
        changes = changes_of(net, found)
        table = CalibrationTable({}, sections={ROUNDING: rounding_lines(changes)})
        text = format_table(table).replace("###", "###\nx 1 -1 1")
        back = annotated_changes(module, parse_table(text))
        assert {name: array.tolist() for name, array in back.items()} == {
            name: array.reshape(-1).tolist() for name, array in changes.items()
        }

    def test_float_layers_and_float_modes_keep_their_filters(self) -> None:
        from tpuc.api import QUANTIZE_TABLE

        module = convolution()
        net, found = found_for(module, like_channels(16, 6, 6, 6))
        table = CalibrationTable({}, sections={ROUNDING: rounding_lines(changes_of(net, found))})
        for results, is_rounded in (
            ({MODE: "int8"}, True),
            ({MODE: "f16"}, False),
            ({MODE: "int8", QUANTIZE_TABLE: {"v3": "f16"}}, False),
        ):
            context = PassContext(Registry(offers=[]), results={CALIBRATION_TABLE: table, **results})
            assert RoundWeights().run(module.clone(), context) is is_rounded

    def test_notes_of_another_network_and_damaged_ones_are_refused(self) -> None:
        lines = rounding_lines({"v3": np.zeros(5, np.int8)})
        with pytest.raises(CalibrationError, match="does not fit module 'network': no op 'v3' with 5 weights"):
            annotated_changes(convolution(), CalibrationTable({}, sections={ROUNDING: lines}))
        for damaged in ("v3 !!", "v3 AAAA"):
            with pytest.raises(CalibrationError, match="rounding of 'v3' is damaged"):
                annotated_changes(convolution(), CalibrationTable({}, sections={ROUNDING: (damaged,)}))
