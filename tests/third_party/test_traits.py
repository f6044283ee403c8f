"""What a stranger's op states is honored where it was a table of our own ops before: ranges, moves, gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from acme_ops.gelu7 import Gelu7
from numpy.typing import NDArray
from tpuc.api import Module, Node, Op, Types
from tpuc.interpreter import Interpreter
from tpuc_ops import top
from tpuc_ops.traits import Differentiable, Homogeneous, KeepsSign, Rearranges, TakesResultRange
from tpuc_optimize.channel_links import find_links
from tpuc_prequantized.absorb_quantization import AbsorbQuantization
from tpuc_quantize.ranges.bounds import bounds_of

from tests.passes.accuracy.test_gradients import slope
from tests.passes.calibration.test_propagation import propagate
from tests.passes.graphs import CONTEXT, Network

Array = NDArray[Any]
SHAPE = (1, 4, 4, 4)


@dataclass(frozen=True)
class Unstated(Op):
    """The last dimension backwards, of which passes know nothing."""

    name = "strange.Unstated"

    def infer(self, operands: Types) -> Types:
        return (operands[0].shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0][..., ::-1]]


@dataclass(frozen=True)
class Flip(Unstated, Rearranges, TakesResultRange, Homogeneous, KeepsSign):
    """As `Unstated`, and says what it is."""

    name = "strange.Flip"


@dataclass(frozen=True)
class Opaque(Op):
    """Less the mean of the last dimension."""

    name = "strange.Opaque"

    def infer(self, operands: Types) -> Types:
        return (operands[0].shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [operands[0] - operands[0].mean(-1, keepdims=True)]


@dataclass(frozen=True)
class Centered(Opaque, Differentiable):
    """As `Opaque`, and knows its gradient."""

    name = "strange.Centered"

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array]:
        return [gradient - gradient.mean(-1, keepdims=True)]


def ranges(op: Op) -> dict[str, tuple[float, float]]:
    """Of `v1`, what the op `v2` makes of it, and a pool behind that, after propagation."""
    net = Network(*SHAPE)
    doubled = net.op(top.MulConst(const_val=2.0), net.input)
    moved = net.op(op, doubled)
    pooled = net.op(top.AvgPool(kernel_shape=(2, 2)), moved)
    return propagate(net.finish(pooled), v0=(1.0, -1.0), v1=(6.0, -6.0), v2=(4.0, -4.0), v3=(3.0, -3.0))


def test_neighbors_share_their_ranges() -> None:
    assert ranges(Flip())["v1"] == ranges(Flip())["v2"] == (-4.0, 4.0)
    assert [ranges(Unstated())[name] for name in ("v1", "v2")] == [(-6.0, 6.0), (-4.0, 4.0)]


def bounds(op: Op) -> set[float]:
    net = Network(*SHAPE)
    found = bounds_of(net.finish(net.op(op, net.op(Gelu7(), net.input))))
    return set(found.values()) if len(found) == 2 else set()


def test_bounds_are_known_and_handed_on() -> None:
    assert bounds(Flip()) == {7.0}
    assert not bounds(Unstated())


def links(op: Op) -> int:
    net = Network(*SHAPE)
    conv = top.Conv(kernel_shape=(1, 1))
    first = net.op(conv, net.input, net.weight(4, 4, 1, 1), net.none)
    second = net.op(conv, net.op(op, first), net.weight(4, 4, 1, 1), net.none)
    return len(list(find_links(net.finish(second))))


def test_factors_of_channels_pass() -> None:
    assert (links(Flip()), links(Unstated())) == (1, 0)


def stated(op: Op) -> Module:
    """The op between integers that are read as floats, and floats that are rounded to the same integers."""
    net = Network(*SHAPE)
    quantize = top.QuantizeLinear(y_scale=(0.125,), y_zero_point=(0,))
    read = top.DequantizeLinear(x_scale=(0.125,), x_zero_point=(0,))
    stored = net.op(read, net.op(quantize, net.op(top.SiLU(), net.input)))
    return net.finish(net.op(top.SiLU(), net.op(read, net.op(quantize, net.op(op, stored)))))


@pytest.mark.parametrize(("op", "is_moved"), [(Flip(), True), (Unstated(), False)])
def test_integers_are_moved_as_they_are(op: Op, is_moved: bool) -> None:
    module, x = stated(op), np.random.default_rng(0).uniform(-3, 3, SHAPE).astype(np.float32)
    (before,) = Interpreter(module).run({"v0": x}).values()
    AbsorbQuantization().run(module, CONTEXT)
    (found,) = [operation for operation in module.walk() if operation.op == op]
    assert found.result.tensor.is_quantized == is_moved
    (after,) = Interpreter(module).run({"v0": x}).values()
    np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("op", "is_known"), [(Flip(), True), (Unstated(), False), (Centered(), True), (Opaque(), False)]
)
def test_gradients_go_through(op: Op, is_known: bool) -> None:
    net = Network(*SHAPE)
    module = net.finish(net.op(top.SiLU(), net.op(op, net.op(top.SiLU(), net.input))))
    random = np.random.default_rng(5)
    x, direction = random.uniform(-1, 1, SHAPE).astype(np.float32), random.uniform(-1, 1, SHAPE)
    predicted, wanted = slope(module, x, direction)
    assert (predicted == pytest.approx(wanted, rel=0.02, abs=2e-3)) == isinstance(op, (Flip, Centered))
