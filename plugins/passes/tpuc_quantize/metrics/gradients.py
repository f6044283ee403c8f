"""Reverse mode over a float TOP network: how far a small change of every value moves the network's outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tpuc.api import Elementwise, FusesRelu
from tpuc.api.evaluation import ABSENT_SLOT, Array, Step
from tpuc_ops import top
from tpuc_ops.convolution import convolve
from tpuc_optimize.canonicalization.masks import shown

from tpuc_quantize.metrics.adjoints import image_gradient, matrix_gradient, pool_gradient
from tpuc_quantize.metrics.companding import slopes
from tpuc_quantize.metrics.taps import Measure
from tpuc_quantize.simulation.network import KEEPS_VALUES, FakeNetwork, State

MOST_ELEMENTS = 1 << 24
"""Places of a tensor up to which float32 can number them."""

_MOVES = (top.Concat, *(op for op in KEEPS_VALUES if op not in (top.MaxPool, top.Relu)))
_STEP = 1e-2  # of the root mean square: small against the curvature of activations, large against float32


@dataclass
class Gradients:
    """Backward passes over `net`. What an op that has no rule here reads counts as an output of its own. `measure`
    says what counts as outputs, and how.
    """

    net: FakeNetwork
    measure: Measure
    sources: dict[int, list[Array]] = field(default_factory=dict[int, "list[Array]"])

    def weights(
        self, parts: Iterator[tuple[int, State]], random: np.random.Generator, powers: Mapping[int, float]
    ) -> Iterator[tuple[int, Array, Array]]:
        """Slot, value and the gradient of a random sum over all outputs, each scaled to power 1, from the last value to
        the first, in a float run. The square of a gradient is, in the mean over signs, how much squared error of
        outputs a unit of error gives.

        `parts` are states with all values of the steps from a first one on, the last steps first, with the values that
        count as outputs in the first state; the values that are done with are dropped. `powers` are the mean squares of
        the outputs and of what is read without a rule, by slot.
        """
        plan = self.net.plan
        first, state = next(parts)
        gradients: dict[int, Array] = {}

        def seed(slot: int) -> None:
            value = state.values[slot]
            if value is not None and value.size:
                scale = (max(powers.get(slot, 0.0), 1e-30) * value.size) ** -0.5
                signs = random.integers(0, 2, value.shape, np.int8).astype(np.float32) * 2 - 1
                signs *= np.float32(scale)
                units = self.measure.units.get(slot)
                add(slot, signs if units is None else signs * slopes(value, units))

        def add(slot: int, gradient: Array) -> None:
            gradients[slot] = gradients[slot] + gradient if slot in gradients else gradient

        for slot in self.measure.slots:
            seed(slot)
        for index in range(len(plan.steps) - 1, -1, -1):
            if index < first:
                first, state = next(parts)
            step = plan.steps[index]
            given = [gradients.pop(slot, None) for slot in step.results]
            for slot, gradient in zip(step.results, given, strict=True):
                value = state.values[slot]
                if gradient is not None and value is not None:
                    yield slot, value, gradient
            if any(one is not None for one in given):
                self._backwards(index, state, given, add, seed)
            for slot in step.results:
                state.values[slot] = None

    def _backwards(
        self,
        index: int,
        state: State,
        given: list[Array | None],
        add: Callable[[int, Array], None],
        seed: Callable[[int], None],
    ) -> None:
        """From the results of a step to its operands."""
        step = self.net.plan.steps[index]
        operands = [value for slot in step.operands if (value := state.values[slot]) is not None]
        results = [value for slot in step.results if (value := state.values[slot]) is not None]
        found = self._step(index, step, operands, results, given)
        for position, slot in enumerate(step.operands):
            if slot in self.net.constants or slot == 0:
                continue
            if found is None:
                seed(slot)
            elif (one := found[position]) is not None:
                add(slot, one)

    def _step(
        self, index: int, step: Step, operands: list[Array], results: list[Array], given: list[Array | None]
    ) -> Sequence[Array | None] | None:
        op: Any = step.operation.op
        if isinstance(op, _MOVES):
            return self._moved(index, step, operands, given)
        gradient, result = given[0], results[0]
        if gradient is None:
            return None
        fields: Mapping[str, Any] = op.__dict__
        if isinstance(op, FusesRelu) and fields["do_relu"]:
            gradient = gradient * _is_open(result, fields["relu_limit"])
        rule = _RULES.get(type(step.operation.op))
        if rule is not None:
            return rule(op, operands, result, gradient)
        if isinstance(op, Elementwise):
            return self._numeric(index, operands, gradient)
        return None

    def _moved(
        self, index: int, step: Step, operands: list[Array], given: list[Array | None]
    ) -> Sequence[Array | None] | None:
        """Ops that only move elements: the op itself says where each came from."""
        moved = [position for position, slot in enumerate(step.operands) if slot not in self.net.constants]
        if sum(operands[position].size for position in moved) >= MOST_ELEMENTS:
            return None
        if index not in self.sources:
            numbered, first = list(operands), 1  # 0 is what paddings bring in
            for position, array in enumerate(operands):
                if position in moved:
                    ids = np.arange(first, first + array.size, dtype=np.float32)
                    numbered[position], first = ids.reshape(array.shape), first + array.size
                elif isinstance(step.operation.op, top.Concat):
                    numbered[position] = np.zeros(array.shape, np.float32)
            op: Any = step.operation.op
            op = top.Pad(op.paddings, op.mode) if isinstance(op, top.Pad) else op
            found = op.evaluate(step.node, numbered)
            self.sources[index] = [np.asarray(one).reshape(-1).astype(np.int32) for one in found]
        total = 1 + sum(operands[position].size for position in moved)
        sums = np.zeros(total)
        for places, gradient in zip(self.sources[index], given, strict=True):
            if gradient is not None:
                sums += np.bincount(places, weights=gradient.reshape(-1), minlength=total)
        result: list[Array | None] = [None] * len(operands)
        first = 1
        for position in moved:
            array = operands[position]
            result[position] = sums[first : first + array.size].astype(np.float32).reshape(array.shape)
            first += array.size
        return result

    def _numeric(self, index: int, operands: list[Array], gradient: Array) -> Sequence[Array | None]:
        """Element-wise ops: the difference of two results, per operand."""
        result: list[Array | None] = []
        for position, (slot, array) in enumerate(zip(self.net.plan.steps[index].operands, operands, strict=True)):
            if slot == ABSENT_SLOT or slot in self.net.constants or array.dtype.kind != "f":
                result.append(None)
                continue
            seen = shown(array) if self.net.plan.steps[index].operation in self.net.masked else array
            step = np.float32(_STEP * float(np.sqrt(np.mean(seen.astype(np.float64) ** 2))) + 1e-12)
            up, down = (
                self.net.evaluate(index, [*operands[:position], array + side, *operands[position + 1 :]])[0]
                for side in (step, -step)
            )
            with np.errstate(all="ignore"):  # also of hidden places, which are infinite
                slope = np.nan_to_num((up - down) / (2 * step), nan=0.0, posinf=0.0, neginf=0.0)
            result.append(_unbroadcast(gradient * slope, array.shape))
        return result


def _is_open(result: Array, limit: float) -> Array:
    return (result > 0) & (result < limit) if limit > 0 else result > 0


def _unbroadcast(gradient: Array, shape: tuple[int, ...]) -> Array:
    extra = gradient.ndim - len(shape)
    axes = (*range(extra), *(extra + axis for axis, size in enumerate(shape) if size == 1))
    return gradient.sum(axis=axes, keepdims=True).reshape(shape) if axes else gradient


def _conv(op: Any, operands: list[Array], _: Array, gradient: Array) -> Sequence[Array | None] | None:
    if op.inserts:
        return None
    return [image_gradient(gradient, operands[1], operands[0].shape, op.window(), op.group), *_nothing(operands)]


def _matmul(op: Any, operands: list[Array], _: Array, gradient: Array) -> Sequence[Array | None] | None:
    left, right = matrix_gradient(op, operands[0], operands[1], gradient)
    return [left, right, *_nothing(operands)[1:]]


def _sum(op: Any, operands: list[Array], _: Array, gradient: Array) -> Sequence[Array]:
    signs = (1.0,) * len(operands) if isinstance(op, top.Add) else (1.0, -1.0)
    factors = op.__dict__.get("coeff") or signs
    return [
        _unbroadcast(gradient * np.float32(factor), array.shape)
        for factor, array in zip(factors, operands, strict=False)
    ]


def _mul(_: Any, operands: list[Array], __: Array, gradient: Array) -> Sequence[Array | None] | None:
    if len(operands) != 2:
        return None
    a, b = operands
    return [_unbroadcast(gradient * b, a.shape), _unbroadcast(gradient * a, b.shape)]


def _average(op: Any, operands: list[Array], _: Array, gradient: Array) -> Sequence[Array]:
    return [pool_gradient(gradient / op.window().taps, operands[0].shape, op.window())]


def _maximum(op: Any, operands: list[Array], result: Array, gradient: Array) -> Sequence[Array]:
    return [pool_gradient(gradient, operands[0].shape, op.window(), operands[0], result)]


def _relu(op: Any, _: list[Array], result: Array, gradient: Array) -> Sequence[Array]:
    return [gradient * _is_open(result, op.relu_limit)]


def _prelu(_: Any, operands: list[Array], __: Array, gradient: Array) -> Sequence[Array | None]:
    return [np.where(operands[0] > 0, gradient, gradient * operands[1]), None]


def _scale(_: Any, operands: list[Array], __: Array, gradient: Array) -> Sequence[Array | None]:
    factors = operands[1].reshape(-1, *(1,) * (gradient.ndim - 2))
    return [gradient * factors, *_nothing(operands)]


def _softmax(op: Any, _: list[Array], result: Array, gradient: Array) -> Sequence[Array] | None:
    if op.log:
        return None
    mean = (gradient * result).sum(op.axis, keepdims=True)
    return [np.float32(op.beta) * result * (gradient - mean)]


def _reduce(op: Any, operands: list[Array], _: Array, gradient: Array) -> Sequence[Array] | None:
    if op.mode not in ("ReduceMean", "ReduceSum"):
        return None
    x = operands[0]
    dims = [1 if axis in {a % x.ndim for a in op.axes} else size for axis, size in enumerate(x.shape)]
    share = gradient.size / x.size if op.mode == "ReduceMean" else 1.0
    return [np.broadcast_to(gradient.reshape(dims) * np.float32(share), x.shape)]


def _nothing(operands: list[Array]) -> list[Array | None]:
    return [None] * (len(operands) - 1)


def _deconv(op: Any, operands: list[Array], _: Array, gradient: Array) -> Sequence[Array | None] | None:
    """The convolution that the op transposes, for kernels that need nothing else."""
    weight = operands[1]
    if op.group != 1 or gradient.ndim != 4:
        return None
    result = convolve(gradient, np.ascontiguousarray(weight.swapaxes(0, 1)), op.window())
    return [result, *_nothing(operands)] if result.shape == operands[0].shape else None


_Rule = Callable[[Any, "list[Array]", Array, Array], "Sequence[Array | None] | None"]
_RULES: Mapping[type, _Rule] = {
    top.Conv: _conv,
    top.Deconv: _deconv,
    top.MatMul: _matmul,
    top.Add: _sum,
    top.Sub: _sum,
    top.Mul: _mul,
    top.AvgPool: _average,
    top.MaxPool: _maximum,
    top.Relu: _relu,
    top.PRelu: _prelu,
    top.Scale: _scale,
    top.Softmax: _softmax,
    top.Reduce: _reduce,
}
