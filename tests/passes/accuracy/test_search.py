"""Mixed precision: texts as in the seeds, the choice of a point, the front."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc.api import CALIBRATION_TABLE
from tpuc_accuracy.mixed_precision.search import LayerLoss, Point, Search, Source, quiet
from tpuc_accuracy.mixed_precision.sensitivity import rounded
from tpuc_ops import top
from tpuc_quantize.importing.import_calibration import ImportCalibration
from tpuc_quantize.simulation.network import FakeNetwork
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each
from tests.passes.graphs import CONTEXT, Network

POINTS = (
    Point((), 0.90, -10.0, 1.0),
    Point(("a",), 0.95, -13.0, 1.5),
    Point(("a", "b"), 0.94, -12.0, 1.6),
    Point(("a", "b", "c"), 0.99, -20.0, 3.0),
)
FOUND = Search(
    "chip", "int8", "f32", 3, (LayerLoss("a", "top.Conv", -36.5, 0.9), LayerLoss("b", "top.Add", -37.0, 1.0)), POINTS
)


def test_tables_are_as_in_the_seeds() -> None:
    head = "# sample number: 3\n# all int8 loss: -10.0\n# chip: chip  mix_mode: F32\n###\n"
    assert FOUND.loss_text() == head + "No. 0: Layer:a Loss: -36.5\nNo. 1: Layer:b Loss: -37.0\n"
    assert FOUND.table_text(POINTS[2]) == head + "# op_name   quantize_mode\na F32\nb F32\n"


@each(
    ("cosine", "milliseconds", "expected"),
    [(0.94, None, 1), (None, 2.0, 1), (None, None, 3), (0.98, 2.0, None), (0.5, 1.0, 0), (None, 0.5, None)],
)
def test_the_choice_keeps_the_limits(cosine: float | None, milliseconds: float | None, expected: int | None) -> None:
    assert FOUND.choose(cosine, milliseconds) == (None if expected is None else POINTS[expected])


def test_the_front_leaves_out_what_another_beats() -> None:
    assert FOUND.front() == (POINTS[0], POINTS[1], POINTS[3])


SOURCES = (
    Source(3.0, frozenset("ab")),  # a value between a and b
    Source(1.0, frozenset("bc")),
    Source(2.0, frozenset("c")),  # the filters of c
    Source(0.5, frozenset("d")),
    Source(0.0, frozenset("e")),
)
MOVES = [tuple(sorted(source.layers)) for source in SOURCES]


@each(
    ("most", "expected"),
    [
        # c alone takes 2 away; then a and b together 3 and the 1 between b and c; then d.
        (9, [("c",), ("c", "a", "b"), ("c", "a", "b", "d")]),
        (3, [("c",), ("c", "a", "b")]),
        (2, [("c",), ("c", "b")]),  # b alone 1, d alone 0.5
        (0, []),
    ],
)
def test_layers_go_float_by_the_noise_that_goes_with_them(most: int, expected: list[tuple[str, ...]]) -> None:
    assert quiet(SOURCES, MOVES, most) == expected


def test_what_makes_no_noise_stays() -> None:
    assert quiet(SOURCES[-1:], MOVES, 3) == []


def test_a_value_is_rounded_by_all_that_touch_it_through_ops_that_keep_values() -> None:
    net = Network(1, 3, 8, 8)
    conv = top.Conv(kernel_shape=(1, 1))
    first = net.op(conv, net.input, net.weight(4, 3, 1, 1), net.none)
    pool = net.op(top.MaxPool(kernel_shape=(2, 2), strides=(2, 2)), first)
    second = net.op(conv, pool, net.weight(4, 4, 1, 1), net.none)
    third = net.op(conv, pool, net.weight(4, 4, 1, 1), net.none)
    total = net.op(top.Add(), second, third)
    module = net.finish(total)
    values = (net.input, first, pool, second, third, total)
    entries = {value.name: TensorThreshold(1.0, -1.0, 1.0) for value in values}
    context = dataclasses.replace(CONTEXT, results={CALIBRATION_TABLE: CalibrationTable(entries)})
    ImportCalibration().run(module, context)
    fake = FakeNetwork(module)
    around = {fake.plan.names[slot]: layers for slot, layers in rounded(fake).items()}
    assert around[first.name] == (first.name, pool.name, second.name, third.name)
    assert pool.name not in around
    assert around[net.input.name] == (first.name,)


def test_sums_that_are_floats_are_not_rounded() -> None:
    net = Network(1, 3, 8, 8)
    last = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(4, 3, 1, 1), net.none)
    module = net.finish(last)
    entries = {value.name: TensorThreshold(1.0, -1.0, 1.0) for value in (net.input, last)}
    context = dataclasses.replace(CONTEXT, results={CALIBRATION_TABLE: CalibrationTable(entries)})
    ImportCalibration().run(module, context)
    x = {net.input.name: np.random.default_rng(1).uniform(-1, 1, (1, 3, 8, 8)).astype(np.float32)}
    as_bytes, as_floats = FakeNetwork(module), FakeNetwork(module, float_sums=frozenset((last.name,)))
    rounded_, plain = (next(iter(net.outputs(net.run(x, integer=True)).values())) for net in (as_bytes, as_floats))
    assert len(np.unique(rounded_)) <= 255 < len(np.unique(plain))
    inside = np.abs(plain) < 1  # the threshold
    assert 0 < np.abs(rounded_ - plain)[inside].max() <= 0.5 / 127 + 1e-6
    assert rounded(as_floats).keys() < rounded(as_bytes).keys()
