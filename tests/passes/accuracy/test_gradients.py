"""Gradients against differences: what a small change of a value does to the outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tpuc.api import Module, Op, Value
from tpuc_ops import top
from tpuc_quantize.metrics.gradients import Gradients
from tpuc_quantize.metrics.taps import Measure
from tpuc_quantize.simulation.network import FakeNetwork, State
from tpuc_quantize.simulation.output_slots import output_slots

from tests.families import each
from tests.passes.graphs import Network

SHAPE = (1, 4, 6, 6)
VOLUMES = (1, 2, 2, 6, 6)


def gradients(net: FakeNetwork, state: State, seed: int, powers: dict[int, float]) -> dict[int, np.ndarray[Any, Any]]:
    parts, measure = iter([(0, state.copy())]), Measure(tuple(output_slots(net)))
    walked = Gradients(net, measure).weights(parts, np.random.default_rng(seed), powers)
    return {slot: found for slot, _, found in walked}


def slope(module: Module, x: np.ndarray[Any, Any], direction: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The change of the random sum along `direction`: by the gradient, and by the difference of two runs in float64
    of the op's own float32 results, which is why the agreement is to a few parts in a thousand.
    """
    net = FakeNetwork(module)
    state = net.run({"v0": x}, integer=False, keep=True)
    slots = output_slots(net)
    powers = dict.fromkeys(range(net.plan.slots), 1.0)
    found = gradients(net, state, 3, powers)
    (source,) = (item.slot for item in net.plan.inputs)
    first = next(step.results[0] for step in net.plan.steps if step.operands[0] == source)
    predicted = float((found[first].astype(np.float64) * direction).sum())
    random, sums = np.random.default_rng(3), []
    signs = {slot: random.integers(0, 2, state.values[slot].shape, np.int8) * 2.0 - 1 for slot in slots}  # pyright: ignore[reportOptionalMemberAccess]
    for side in (1e-3, -1e-3):
        moved = net.run({"v0": (x + side * direction).astype(np.float32)}, integer=False, keep=True)
        values = {slot: moved.values[slot] for slot in slots}
        sums.append(
            sum(float((signs[slot] * v).sum()) / np.sqrt(v.size) for slot, v in values.items() if v is not None)
        )
    return predicted, (sums[0] - sums[1]) / 2e-3


OPS: dict[str, Any] = {
    "conv": lambda net, x: net.op(
        top.Conv(kernel_shape=(3, 3), pads=(1, 1, 1, 1), strides=(2, 2)), x, net.weight(6, 4, 3, 3), net.weight(6)
    ),
    "dilated": lambda net, x: net.op(
        top.Conv(kernel_shape=(2, 3), dilations=(2, 1)), x, net.weight(2, 4, 2, 3), net.none
    ),
    "grouped": lambda net, x: net.op(top.Conv(kernel_shape=(3, 3), group=2), x, net.weight(6, 2, 3, 3), net.none),
    "depthwise": lambda net, x: net.op(
        top.Conv(kernel_shape=(3, 3), group=4, pads=(1, 1, 0, 0), do_relu=True),
        x,
        net.weight(4, 1, 3, 3),
        net.weight(4),
    ),
    "deconv": lambda net, x: net.op(
        top.Deconv(kernel_shape=(2, 2), strides=(2, 2)), x, net.weight(3, 4, 2, 2), net.none
    ),
    "matmul": lambda net, x: net.op(top.MatMul(right_transpose=True), x, net.weight(5, 6), net.weight(5)),
    "square": lambda net, x: net.op(top.MatMul(), x, net.op(top.Permute(order=(0, 1, 3, 2)), x)),
    "average": lambda net, x: net.op(top.AvgPool(kernel_shape=(2, 3), strides=(2, 1)), x),
    "maximum": lambda net, x: net.op(top.MaxPool(kernel_shape=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1)), x),
    "conv_of_volumes": lambda net, x: net.op(
        top.Conv(kernel_shape=(2, 3, 2), strides=(1, 2, 1), pads=(1, 0, 1, 0, 1, 0), dilations=(1, 2, 1), group=2),
        net.op(top.Reshape(shape=VOLUMES), x),
        net.weight(6, 1, 2, 3, 2),
        net.none,
    ),
    "average_of_volumes": lambda net, x: net.op(
        top.AvgPool(kernel_shape=(2, 3, 2), strides=(1, 1, 2), pads=(0,) * 6), net.op(top.Reshape(shape=VOLUMES), x)
    ),
    "maximum_of_volumes": lambda net, x: net.op(
        top.MaxPool(kernel_shape=(2, 3, 2), strides=(1, 2, 2), pads=(1, 1, 0, 0, 1, 1)),
        net.op(top.Reshape(shape=VOLUMES), x),
    ),
    "relu": lambda net, x: net.op(top.Relu(relu_limit=0.6), x),
    "leaky": lambda net, x: net.op(top.LeakyRelu(alpha=0.2), x),
    "prelu": lambda net, x: net.op(top.PRelu(), x, net.weight(1, 4, 1, 1)),
    "silu": lambda net, x: net.op(top.SiLU(), x),
    "product": lambda net, x: net.op(top.Mul(), x, net.op(top.Sigmoid(), x)),
    "sum": lambda net, x: net.op(top.Add(coeff=(0.5, -2.0), do_relu=True), x, net.op(top.Sigmoid(), x)),
    "difference": lambda net, x: net.op(top.Sub(), x, net.op(top.SiLU(), x)),
    "softmax": lambda net, x: net.op(top.SiLU(), net.op(top.Softmax(axis=1), x)),
    "mean": lambda net, x: net.op(top.Reduce(axes=(2, 3), mode="ReduceMean", keepdims=False), x),
    "moves": lambda net, x: net.op(
        top.SiLU(),
        net.op(
            top.Concat(axis=1),
            net.op(top.Slice(offset=(0, 1, 0, 0), steps=(1, 2, 1, 1), ends=(1, 4, 6, 6)), x),
            net.op(top.Permute(order=(0, 1, 3, 2)), net.op(top.Reshape(shape=SHAPE), x)),
        ),
    ),
    "larger": lambda net, x: net.op(top.SiLU(), net.op(top.Upsample(scale_h=2, scale_w=3), x)),
    "padded": lambda net, x: net.op(top.SiLU(), net.op(top.Pad(paddings=(0, 0, 1, 2, 0, 0, 2, 1), mode="edge"), x)),
}


@each("name", OPS)
def test_a_gradient_is_the_difference_of_two_runs(name: str) -> None:
    net = Network(*SHAPE)
    result: Value = OPS[name](net, net.input)
    module = net.finish(result)
    random = np.random.default_rng(5)
    x = random.uniform(-1, 1, SHAPE).astype(np.float32)
    x += np.sign(x) * 0.02  # away from the corner of relus
    predicted, wanted = slope(module, x, random.uniform(-1, 1, SHAPE))
    assert predicted == pytest.approx(wanted, rel=0.02, abs=2e-3)


def test_squares_of_gradients_foretell_the_error_of_small_noise() -> None:
    net = Network(*SHAPE)
    hidden = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(16, 4, 1, 1), net.none)
    module = net.finish(net.op(top.Conv(kernel_shape=(3, 3)), hidden, net.weight(8, 16, 3, 3), net.none))
    fake, random = FakeNetwork(module), np.random.default_rng(5)
    state = fake.run({"v0": random.standard_normal(SHAPE).astype(np.float32)}, integer=False, keep=True)
    slot = fake.plan.steps[-2].results[0]
    foretold = [float((gradients(fake, state, k, dict.fromkeys(range(99), 1.0))[slot] ** 2).sum()) for k in range(4)]
    # Noise of power 1 gives each of 8 channels the sum of its squared weights; random signs differ from that by 3 %.
    wanted = float((module.weights["w3"].astype(np.float64) ** 2).sum()) / 8
    assert np.mean(foretold) == pytest.approx(wanted, rel=0.1)


def test_boxes_and_scores_in_one_output_are_two_outputs() -> None:
    net = Network(1, 4, 6, 6)
    boxes = net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(4, 4, 1, 1), net.none)
    scores = net.op(top.Sigmoid(), net.op(top.Conv(kernel_shape=(1, 1)), net.input, net.weight(2, 4, 1, 1), net.none))
    joined = net.op(top.Reshape(shape=(1, 6, 36)), net.op(top.Concat(axis=1), boxes, scores))
    fake = FakeNetwork(net.finish(net.op(top.Permute(order=(0, 2, 1)), joined)))
    assert {fake.plan.names[slot] for slot in output_slots(fake)} == {boxes.name, scores.name}


def test_an_op_without_a_rule_starts_gradients_anew() -> None:
    from tpuc_ops import top  # it has no slope

    net = Network(1, 4, 6, 6)
    hidden = net.op(top.SiLU(), net.input)
    op: Op = top.Arg(axis=1, mode="ArgMax")
    fake = FakeNetwork(net.finish(net.op(op, hidden)))
    state = fake.run(
        {"v0": np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)}, integer=False, keep=True
    )
    found = gradients(fake, state, 0, dict.fromkeys(range(9), 1.0))
    slot = next(slot for slot, name in fake.plan.names.items() if name == hidden.name)
    assert np.allclose(np.abs(found[slot]), (6 * 6 * 4) ** -0.5)
