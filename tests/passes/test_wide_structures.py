"""Which ops of recurrent cells, spectra and coarse outputs stay wide, and that a cell then follows the float one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import CALIBRATION_TABLE, QUANTIZE_TABLE
from tpuc.interpreter import Interpreter
from tpuc.interpreter.values import real_values, types_of
from tpuc.ir import Module, Operation, Value
from tpuc.schedule import PassManager
from tpuc_driver.session import Session
from tpuc_ops import top
from tpuc_optimize.canonicalization.wide_structures import wide_structures
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each
from tests.passes.graphs import Network, ops

HIDDEN = 16
Build = Callable[[Network], tuple[Value, ...]]


def product(net: Network, value: Value, columns: int) -> Value:
    return net.op(top.MatMul(), value, net.weight(value.tensor.dims[-1], columns), net.weight(columns))


def gate(net: Network, value: Value, place: int) -> Value:
    return net.op(top.Slice(offset=(0, place * HIDDEN), steps=(1, 1), ends=(1, (place + 1) * HIDDEN)), value)


def row(net: Network, place: int) -> Value:
    """A row of the input: features, or a state."""
    return net.op(top.Slice(offset=(place, 0), steps=(1, 1), ends=(place + 1, HIDDEN)), net.input)


def lstm(net: Network) -> tuple[Value, ...]:
    x, h, c = (row(net, place) for place in range(3))
    sums = net.op(top.Add(), product(net, x, 4 * HIDDEN), product(net, h, 4 * HIDDEN))
    i, o, f = (net.op(top.Sigmoid(), gate(net, sums, place)) for place in range(3))
    new = net.op(top.Mul(), i, net.op(top.Tanh(), gate(net, sums, 3)))
    cell = net.op(top.Add(), net.op(top.Mul(), f, c), new)
    h = net.op(top.Mul(), o, net.op(top.Tanh(), cell))
    return product(net, net.op(top.Relu(), h), 2), h, cell


def gru(net: Network, *, after: bool) -> tuple[Value, ...]:
    x, h, _ = (row(net, place) for place in range(3))
    of_x, of_h = product(net, x, 3 * HIDDEN), product(net, h, 2 * HIDDEN)
    z, r = (
        net.op(top.Sigmoid(), net.op(top.Add(), gate(net, of_x, place), gate(net, of_h, place))) for place in range(2)
    )
    inner = net.op(top.Mul(), r, product(net, h, HIDDEN)) if after else product(net, net.op(top.Mul(), r, h), HIDDEN)
    new = net.op(top.Tanh(), net.op(top.Add(), gate(net, of_x, 2), inner))
    left = net.op(top.SubConst(const_val=1.0, is_reverse=True), z)
    h = net.op(top.Add(), net.op(top.Mul(), left, new), net.op(top.Mul(), z, h))
    return product(net, h, 2), h


def reset_after(net: Network) -> tuple[Value, ...]:
    return gru(net, after=True)


def reset_before(net: Network) -> tuple[Value, ...]:
    return gru(net, after=False)


def spectrum(net: Network) -> tuple[Value, ...]:
    parts = product(net, net.input, 2 * HIDDEN)
    re, im = (
        net.op(top.Slice(offset=(0, place * HIDDEN), steps=(1, 1), ends=(3, (place + 1) * HIDDEN)), parts)
        for place in range(2)
    )
    power = net.op(top.Add(), net.op(top.Pow(exponent=2.0), re), net.op(top.Mul(), im, im))
    return (net.op(top.Sqrt(), power),)


def squeeze(net: Network) -> tuple[Value, ...]:
    """Two features with gates of their own."""
    parts = [product(net, net.input, HIDDEN) for _ in range(2)]
    scaled = [net.op(top.Mul(), one, net.op(top.Sigmoid(), product(net, one, HIDDEN))) for one in parts]
    return (net.op(top.Add(), *scaled),)


def wavenet(net: Network) -> tuple[Value, ...]:
    """A gated layer with a residual."""
    gates = net.op(top.Sigmoid(), product(net, net.input, HIDDEN))
    inner = net.op(top.Mul(), gates, net.op(top.Tanh(), product(net, net.input, HIDDEN)))
    return (net.op(top.Add(), inner, net.input),)


def norm(net: Network) -> tuple[Value, ...]:
    total = net.op(top.Reduce(axes=(1,), keepdims=True, mode="ReduceSum"), net.op(top.Mul(), net.input, net.input))
    return (net.op(top.Sqrt(), total),)


def head(net: Network, groups: int = 4) -> tuple[Value, ...]:
    """Scores of a detector: a depthwise product, and blocks of its channels."""
    image = net.op(top.Reshape(shape=(1, 3, 4, 4)), net.input)
    many = net.op(top.Conv(kernel_shape=(1, 1)), image, net.weight(2048, 3, 1, 1), net.none)
    few = net.op(top.Conv(kernel_shape=(1, 1)), many, net.weight(4, 2048, 1, 1), net.none)
    last = top.Conv(kernel_shape=(1, 1), group=groups)
    scores = net.op(last, few, net.weight(4, 4 // groups, 1, 1), net.none)
    return (net.op(top.Depth2Space(block_h=2, block_w=2, is_CRD=False, is_inversed=False), scores),)


def network(build: Build, encoder: int = 0) -> Module:
    """With an encoder of features that are an output of their own, if it has a width."""
    net = Network(3, HIDDEN)
    encoded = [product(net, product(net, net.input, encoder), HIDDEN)] if encoder else []
    return net.finish(*build(net), *encoded)


GRU = [*["Add"] * 4, *["Mul"] * 3, *["Sigmoid"] * 2, *["Slice"] * 6, "SubConst", "Tanh"]


@each(
    ("build", "wide"),
    [
        (lstm, [*["Add"] * 2, *["Mul"] * 3, *["Sigmoid"] * 3, *["Slice"] * 5, *["Tanh"] * 2]),
        (reset_after, GRU),
        (reset_before, GRU),
        (spectrum, ["Add", "Mul", "Pow", "Slice", "Slice", "Sqrt"]),
        (squeeze, []),
        (wavenet, []),
        (norm, []),
    ],
)
def test_what_is_found(build: Build, wide: list[str]) -> None:
    module = network(build, 256)
    assert _kinds(wide_structures(module)) == wide, ops(module)


def _kinds(found: Iterable[Operation]) -> list[str]:
    return sorted(one.op.name.removeprefix("top.") for one in found)


def table_of(module: Module, reach: float = 1.0) -> CalibrationTable:
    values = [value for operation in module.main.operations for value in operation.results if value.name]
    return CalibrationTable({one.name: TensorThreshold(reach, -reach, reach) for one in values})


def lowered(module: Module, chip: str, table: CalibrationTable) -> tuple[Module, Mapping[str, str]]:
    """The module for a chip, and the modes of its ops."""
    session = Session(chip=chip, quantize="int8")
    context = session.context({CALIBRATION_TABLE: table}, "int8")
    result = module.clone()
    for stage in ("calibrate", "lower"):
        PassManager(context).run_pipeline(stage, result)
    return result, context.find(QUANTIZE_TABLE, {})


@each(
    ("chip", "reach", "groups", "is_float"),
    [
        ("cv183x", 40.0, 4, True),
        ("cv183x", 30.0, 4, False),
        ("cv183x", 40.0, 1, False),
        ("c", 40.0, 4, False),
    ],
)
def test_scores_with_a_coarse_step(chip: str, reach: float, groups: int, is_float: bool) -> None:
    module = network(lambda net: head(net, groups))
    last = module.main.outputs[0].defining
    assert last is not None
    producer = last.operands[0].defining
    assert producer is not None
    _, found = lowered(module, chip, table_of(module, reach))
    assert (producer.name in found) == is_float


@pytest.mark.parametrize(("chip", "bound"), [("bm1684x", 0.04), ("cv183x", 0.15)])
@pytest.mark.parametrize("build", [lstm, reset_after], ids=["lstm", "gru"])
def test_a_state_follows_the_float_one(build: Build, chip: str, bound: float) -> None:
    """Over 60 frames; in bytes only, these states were 0.3 and 0.5 away."""
    module = network(build)
    inputs = np.random.default_rng(45).uniform(-1, 1, (60, HIDDEN)).astype(np.float32)

    def run(net: Module) -> NDArray[np.float32]:
        host, types = Interpreter(net), types_of(net)
        rows, found = np.zeros((2, HIDDEN), np.float32), list[NDArray[np.float32]]()
        for x in inputs:
            got = host.run({"v0": np.stack([x, *rows])})
            states = [real_values(got[name], types[name]) for name in host.output_names if got[name].size == HIDDEN]
            rows = np.concatenate([*states, *states])[:2].astype(np.float32)
            found.append(rows[0])
        return np.array(found)

    exact, values = run(module), Interpreter(module)
    ranges: dict[str, float] = {}
    for x in inputs:
        for name, array in values.run({"v0": np.stack([x, *exact[:2]])}, keep="all").items():
            ranges[name] = max(ranges.get(name, 0.0), float(np.abs(array).max()) * 1.5)
    table = CalibrationTable({name: TensorThreshold(one, -one, one) for name, one in ranges.items()})
    error = np.abs(run(lowered(module, chip, table)[0]) - exact).max()
    assert error < bound, error
