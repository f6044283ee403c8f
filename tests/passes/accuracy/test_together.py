"""Samples that run in one array give what each gives alone from the start, to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
from tpuc.api import Module
from tpuc_driver.api.host import open_pool
from tpuc_ops import top
from tpuc_quantize.simulation.batching import batch_limit, batched_node
from tpuc_quantize.simulation.network import FakeNetwork, State

from tests.families import each
from tests.passes.calibration.test_observe import calibrated
from tests.passes.graphs import Network

SAMPLES = 7


def network(first: int = 1) -> Module:
    """Ops that take rows of the first axis alone, and ops that do not, in turn."""
    net = Network(first, 3, 9, 8)
    x = net.input
    a = net.op(top.Conv(kernel_shape=(3, 3), pads=(1, 1, 1, 1), do_relu=True), x, net.weight(8, 3, 3, 3), net.weight(8))
    b = net.op(top.Conv(kernel_shape=(3, 3), strides=(2, 2), group=8), a, net.weight(8, 1, 3, 3), net.none)
    c = net.op(top.PRelu(), b, net.weight(1, 8, 1, 1))
    d = net.op(top.Mul(), net.op(top.Add(), c, b), net.weight(8, 1, 3))
    e = net.op(top.Concat(axis=1), d, net.op(top.MaxPool(kernel_shape=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1)), c))
    f = net.op(top.Softmax(axis=0), net.op(top.AvgPool(kernel_shape=(2, 2), strides=(1, 1)), e))
    g = net.op(top.Add(), net.op(top.Permute(order=(1, 0, 2, 3)), f), net.weight(16, 1, 1, 1))
    h = net.op(top.Reshape(shape=(first, -1)), net.op(top.Permute(order=(1, 0, 2, 3)), g))
    return net.finish(net.op(top.MatMul(), h, net.weight(h.tensor.dims[1], 5)), e)


def runs(module: Module, samples: list[dict[str, Any]], threads: int) -> list[State]:
    net = FakeNetwork(module)
    with open_pool(threads) as pool:
        return net.run_all(samples, pool, integer=True)


@each("first", [1, 2])
@each("threads", [0, 1])
def test_together_as_alone(first: int, threads: int) -> None:
    module = calibrated(network(first), 2.0)
    random = np.random.default_rng(0)
    samples = [{"v0": random.standard_normal((first, 3, 9, 8)).astype(np.float32)} for _ in range(SAMPLES)]
    net = FakeNetwork(module)
    assert batch_limit(net.plan) > SAMPLES
    for sample, state in zip(samples, runs(module, samples, threads), strict=True):
        alone = net.outputs(net.run(sample, integer=True))
        together = net.outputs(state)
        for name, array in alone.items():
            np.testing.assert_array_equal(together[name], array, strict=True)


def test_what_reads_other_rows_runs_alone() -> None:
    plan = FakeNetwork(network()).plan
    shared = {0, *(slot for slot, _ in plan.constants)}
    names = {type(step.operation.op).__name__: batched_node(step, shared, 3) for step in plan.steps}
    # The last sum is one with a weight for each row.
    assert {name for name, node in names.items() if node is None} == {"Concat", "Softmax", "Permute", "MatMul", "Add"}


def test_values_without_a_first_axis_run_alone() -> None:
    net = Network(1, 4)
    total = net.op(top.Reduce(axes=(0, 1), mode="ReduceSum", keepdims=False), net.input)
    plan = FakeNetwork(net.finish(total)).plan
    assert batch_limit(plan) == 1
