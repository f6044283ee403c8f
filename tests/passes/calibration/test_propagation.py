"""Neighbors that do not rescale share one threshold."""

from __future__ import annotations

import dataclasses

import numpy as np
from tpuc.api import CALIBRATION_TABLE, Calibrated, Module, Op, TensorType, Value
from tpuc_ops import top
from tpuc_quantize.importing.import_calibration import ImportCalibration
from tpuc_quantize.importing.propagate_calibration import PropagateCalibration
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each
from tests.passes.graphs import CONTEXT, Network

Range = tuple[float, float]


def propagate(module: Module, mode: str = "int8", **thresholds: Range) -> dict[str, Range]:
    """`name=(threshold, minimum)` in, `(minimum, maximum)` by name out."""
    entries = {name: TensorThreshold(t, low, t) for name, (t, low) in thresholds.items()}
    table = CalibrationTable(entries)
    context = dataclasses.replace(CONTEXT, results={CALIBRATION_TABLE: table}, options={"quantize": mode})
    ImportCalibration().run(module, context)
    PropagateCalibration().run(module, context)
    values = [result for operation in module.main.operations for result in operation.results]
    elements = {value.name: value.type.element for value in values if isinstance(value.type, TensorType)}
    return {name: (e.minimum, e.maximum) for name, e in elements.items() if isinstance(e, Calibrated)}


def chain(*ops: Op) -> tuple[Network, list[Value]]:
    """v0 is the input, each op reads the one before."""
    net = Network(1, 4, 4, 4)
    values = [net.input]
    for op in ops:
        values.append(net.op(op, values[-1]))
    return net, values


@each("op", [top.Reshape(shape=(1, 64)), top.Permute(order=(0, 2, 3, 1))])
def test_shape_ops_take_the_threshold_of_their_operand(op: Op) -> None:
    net, values = chain(top.Sigmoid(), op)
    net.op(top.Relu(), values[1])  # so that the operand has another user, and backward does not apply
    found = propagate(net.finish(values[2]), v0=(1.0, -1.0), v1=(2.0, -2.0), v2=(3.0, -3.0), v3=(2.0, 0.0))
    assert found["v2"] == found["v1"] == (-2.0, 2.0)


def test_the_operand_of_a_relu_takes_its_range() -> None:
    net = Network(1, 4, 4, 4)
    conv = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(4, 4, 1, 1), net.none)
    found = propagate(net.finish(net.op(top.Relu(), conv)), v0=(1.0, -1.0), v2=(6.0, -6.0), v3=(4.0, 0.0))
    assert found["v2"] == found["v3"] == (0.0, 4.0)


def test_the_operand_of_a_pool_takes_its_range_unless_somebody_else_reads_it() -> None:
    net, values = chain(top.MulConst(const_val=2.0), top.MaxPool(kernel_shape=(2, 2)))
    thresholds = {"v0": (1.0, -1.0), "v1": (6.0, -6.0), "v2": (4.0, -4.0)}
    assert propagate(net.finish(values[-1]), **thresholds)["v1"] == (-4.0, 4.0)
    net, values = chain(top.MulConst(const_val=2.0), top.MaxPool(kernel_shape=(2, 2)))
    other = net.op(top.Sigmoid(), values[1])
    found = propagate(net.finish(values[-1], other), **thresholds, v3=(1.0, 0.0))
    assert found["v1"] == found["v2"] == (-6.0, 6.0)


def test_operands_of_a_concat_take_its_range() -> None:
    net, values = chain(top.MulConst(const_val=2.0))
    other = net.op(top.MulConst(const_val=0.5), net.input)
    joined = net.op(top.Concat(axis=1), values[-1], other)
    thresholds = {"v0": (1.0, -1.0), "v1": (2.0, -2.0), "v2": (0.5, -0.5), "v3": (2.0, -2.0)}
    found = propagate(net.finish(joined), **thresholds)
    assert found["v1"] == found["v2"] == found["v3"] == (-2.0, 2.0)


@each(
    ("summand", "result", "expected"),
    [
        (1e-5, 5.0, (5.0, 5.0)),  # less than half of a step: nothing is rescaled
        (1e-5, 3.0, (4.0, 4.0)),
        (0.1, 5.0, (4.0, 5.0)),
    ],
)
def test_a_sum_with_next_to_nothing_has_the_range_of_its_other_operand(
    summand: float, result: float, expected: tuple[float, float]
) -> None:
    net, values = chain(top.MulConst(const_val=2.0), top.AddConst(const_val=-9.0, do_relu=True))
    total = net.op(top.Add(), values[1], values[2])
    thresholds = {"v0": (1.0, -1.0), "v1": (4.0, -4.0), "v2": (summand, 0.0), "v3": (result, -result)}
    found = propagate(net.finish(total), **thresholds)
    assert [found[name] for name in ("v1", "v3")] == [(-one, one) for one in expected]


def test_a_leaky_relu_never_cuts_off_what_is_below_zero() -> None:
    net, values = chain(top.MulConst(const_val=2.0), top.LeakyRelu(alpha=0.1))
    found = propagate(net.finish(values[-1]), v0=(1.0, -1.0), v1=(9.0, -9.0), v2=(3.0, -3.0))
    assert found["v1"] == (-9.0, 9.0)


def test_nor_does_it_in_asymmetric_ranges() -> None:
    """The slope makes -4 to -0.4: the range of the result would cut off most of what is below zero."""
    net, values = chain(top.MulConst(const_val=2.0), top.LeakyRelu(alpha=0.1))
    found = propagate(net.finish(values[-1]), mode="int8-asym", v0=(2.5, -2.0), v1=(5.0, -4.0), v2=(5.0, -0.4))
    assert found["v1"] == (-4.0, 5.0)


def test_results_of_signed_operands_are_signed_unless_a_relu_is_fused() -> None:
    for do_relu, expected in ((False, (-2.0, 2.0)), (True, (0.0, 2.0))):
        net, values = chain(top.MulConst(const_val=2.0))
        total = net.op(top.Add(do_relu=do_relu), values[-1], net.input)
        found = propagate(net.finish(total), v0=(1.0, -1.0), v1=(2.0, -2.0), v2=(2.0, 0.0))
        assert found["v2"] == expected


@each(
    ("op", "result"),
    [
        (top.LeakyRelu(alpha=3.0), (6.0, -6.0)),
        (top.LeakyRelu(alpha=-3.0), (6.0, 0.0)),
        (top.MaxConst(const_val=5.0), (5.0, -5.0)),
        (top.MinConst(const_val=-5.0), (5.0, -5.0)),
    ],
)
def test_results_beyond_the_operands_range_keep_their_own(op: Op, result: Range) -> None:
    net, values = chain(top.MulConst(const_val=2.0), op)
    found = propagate(net.finish(values[-1]), v0=(1.0, -1.0), v1=(2.0, -2.0), v2=result)
    assert (found["v1"], found["v2"]) == ((-2.0, 2.0), (result[1], result[0]))


@each(("slope", "is_taken"), [(1.0, True), (-1.0, True), (1.5, False), (-1.5, False)])
def test_one_steep_slope_of_many_is_enough(slope: float, is_taken: bool) -> None:
    net, values = chain(top.MulConst(const_val=2.0))
    slopes = net.weight(1, 4, 1, 1)
    result = net.op(top.PRelu(), values[-1], slopes)
    module = net.finish(result)
    module.weights[slopes.name] = np.array([0.1, 0.2, slope, 0.3], np.float32).reshape(1, 4, 1, 1)
    thresholds = {"v0": (1.0, -1.0), values[-1].name: (2.0, -2.0), result.name: (3.0, -3.0)}
    found = propagate(module, **thresholds)
    assert (found[values[-1].name] == found[result.name]) == is_taken
    assert found[result.name] == (-3.0, 3.0)


@each(("value", "expected"), [(1.0, 2.0), (5.0, 5.0), (-1e4, 2.0)])
def test_the_operand_of_a_pad_reaches_as_far_as_the_pads_unless_they_are_a_mask(value: float, expected: float) -> None:
    net, values = chain(top.MulConst(const_val=2.0), top.Pad(paddings=(0, 0, 0, 0, 0, 0, 1, 1), val=value))
    reach = max(2.0, abs(value))
    found = propagate(net.finish(values[-1]), v0=(1.0, -1.0), v1=(2.0, -2.0), v2=(reach, -reach))
    assert found["v1"] == found["v2"] == (-expected, expected)


@each(("own", "expected"), [(1.0, 1.0), (2.0, 32.0)])
def test_parts_of_an_input_that_would_lose_half_of_their_bits_keep_their_range(own: float, expected: float) -> None:
    """A state and its cell in one input: the whole is not rounded before its parts are read."""
    for is_input in (True, False):
        net = Network(2, 1, 128)
        whole = net.input if is_input else net.op(top.MulConst(const_val=2.0), net.input)
        part = net.op(top.Slice(offset=(0, 0, 0), steps=(1, 1, 1), ends=(1, 1, 128)), whole)
        row = net.op(top.Reshape(shape=(1, 128)), part)
        ranges = {value.name: (own if value in (part, row) else 32.0, -1.0) for value in (net.input, whole, part, row)}
        last = net.op(top.AddConst(const_val=1.0), row)
        found = propagate(net.finish(last), "int8", **ranges, **{last.name: (1.0, -1.0)})
        assert found[part.name][1] == found[row.name][1] == (expected if is_input else 32.0)
