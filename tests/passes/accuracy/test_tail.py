"""What ends a network: which ops stay float, and which joins of answers keep a range per operand."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping

import numpy as np
import pytest
from tpuc.api import Calibrated, Module, Value
from tpuc.data import inputs_of
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.session import Session
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.conv import Conv
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.relu import Relu
from tpuc_ops.top.reshape import Reshape
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_passes.accuracy.tail import joins_apart, tail_of
from tpuc_passes.calibration.table import CalibrationTable, TensorThreshold
from tpuc_passes.import_calibration import ImportCalibration
from tpuc_passes.propagate_calibration import PropagateCalibration

from tests.passes.graphs import CONTEXT, Network

CHIPS = [chip for chip in ("bm1684x", "cv183x") if Registry().has("tpuc.chips", chip)]


def heads(*factors: float) -> tuple[Network, dict[str, Value]]:
    """Convolutions of one image, the first `factor` times as large, put together in rows: `[1, 32 * heads, 2]`."""
    net = Network(1, 4, 4, 8)
    values = {"hidden": net.op(Relu(), net.input)}
    parts: list[Value] = []
    for number, factor in enumerate(factors):
        weight = net.weight(2, 4, 1, 1)
        net.module.weights[weight.name] = net.module.weights[weight.name] * np.float32(factor)
        head = values[f"head{number}"] = net.op(Conv(kernel_shape=(1, 1)), values["hidden"], weight, net.none)
        rows = net.op(Reshape(shape=(1, 32, 2)), net.op(Permute(order=(0, 2, 3, 1)), head))
        parts.append(rows)
    values["joined"] = net.op(Concat(axis=1), *parts)
    return net, values


def thresholds(module: Module, given: Mapping[str, float]) -> CalibrationTable:
    """4 for values that have none of their own."""
    names = [value.name for operation in module.main.operations for value in operation.results if value.name]
    found = {name: given.get(name, 4.0) for name in names if name not in module.weights}
    return CalibrationTable({name: TensorThreshold(t, -t, t) for name, t in found.items()})


def ranges(module: Module, table: CalibrationTable, stored: Collection[int] = ()) -> dict[str, float]:
    """Thresholds by name once neighbours share theirs."""
    module = module.clone()
    results = {"calibration_table": table, "stored_outputs": stored}
    context = dataclasses.replace(CONTEXT, results=results, options={"quantize": "int8"})
    ImportCalibration().run(module, context)
    PropagateCalibration().run(module, context)
    values = [value for operation in module.main.operations for value in operation.results if value.name]
    elements = {value.name: value.tensor.element for value in values}
    return {name: element.threshold for name, element in elements.items() if isinstance(element, Calibrated)}


@pytest.mark.parametrize(("threshold", "kept"), [(1.0, True), (3.2, True), (3.3, False), (4.0, False)])
def test_parts_of_answers_keep_ranges_that_are_much_smaller(threshold: float, kept: bool) -> None:
    net, values = heads(1.0, 1.0)
    module = net.finish(values["joined"])
    found = ranges(module, thresholds(module, {values["head1"].name: threshold}))
    assert found[values["head0"].name] == 4.0
    assert found[values["head1"].name] == (threshold if kept else 4.0)


def test_what_another_product_reads_is_joined_as_before() -> None:
    net, values = heads(1.0, 1.0)
    image = net.op(Reshape(shape=(1, 64, 2, 1)), values["joined"])
    last = net.op(Conv(kernel_shape=(1, 1)), image, net.weight(3, 64, 1, 1), net.none)
    module = net.finish(last)
    assert joins_apart(module) == tail_of(module) == []
    assert ranges(module, thresholds(module, {values["head1"].name: 1.0}))[values["head1"].name] == 4.0


def test_outputs_that_come_out_as_bytes_are_joined_as_before() -> None:
    net, values = heads(1.0, 1.0)
    turned = net.op(Permute(order=(0, 2, 1)), values["joined"])
    scores = net.op(Sigmoid(), values["hidden"])
    module = net.finish(scores, turned)
    table = thresholds(module, {values["head1"].name: 1.0})
    small = values["head1"].name
    assert ranges(module, table, {0})[small] == 1.0
    assert ranges(module, table, {1})[small] == 4.0


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("opt", [0, 2])
def test_each_part_is_as_fine_as_its_own_range_allows(chip: str, opt: int) -> None:
    net, values = heads(1.0, 1 / 64)
    module = net.finish(values["joined"])
    (spec,) = inputs_of(module)
    x = np.random.default_rng(5).uniform(-1, 1, spec.shape).astype(np.float32)
    exact = Interpreter(module).run({spec.name: x}, "all")
    table = thresholds(module, {name: float(np.abs(array).max()) for name, array in exact.items()})
    session = Session(chip=chip, quantize="int8", opt=opt)
    _, data = session.build(module, table)
    ((_, got),) = session.chip.load(data).run({spec.name: x}).items()
    wanted = exact[values["joined"].name].reshape(2, 64)
    reach = np.abs(wanted).max(axis=1)
    assert reach[1] < reach[0] / 32
    # The steps of the operand, of the filters and of the result, and bf16 where that is the chip's float.
    assert (np.abs(wanted - got.reshape(2, 64)).max(axis=1) <= reach * (2 / 127 + 1 / 256)).all()
