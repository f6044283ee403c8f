"""Reverse-mode differentiation of a float TOP network: how much a small change of each value changes the outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tpuc.api import Elementwise, FusesRelu
from tpuc.api.evaluation import ABSENT_SLOT, Array, Step
from tpuc_ops.adjoints import is_open, unbroadcast
from tpuc_ops.traits import Concatenates, Differentiable, Traceable, states
from tpuc_optimize.canonicalization.masks import shown

from tpuc_quantize.metrics.companding import slopes
from tpuc_quantize.metrics.taps import Measure
from tpuc_quantize.simulation.network import FakeNetwork, State

MOST_ELEMENTS = 1 << 24
"""Largest number of elements that float32 can number exactly."""

_STEP = 1e-2  # of the root mean square: small against the curvature of activations, large against float32


@dataclass
class Gradients:
    """Backward passes over `net`. Operands of an op without a gradient rule count as outputs. `measure` defines the
    outputs and their units.
    """

    net: FakeNetwork
    measure: Measure
    sources: dict[int, list[Array]] = field(default_factory=dict[int, "list[Array]"])

    def weights(
        self, parts: Iterator[tuple[int, State]], random: np.random.Generator, powers: Mapping[int, float]
    ) -> Iterator[tuple[int, Array, Array]]:
        """Yield slot, value and the gradient of a random signed sum over all outputs, each scaled to power 1, from the
        last value to the first of a float run. In the mean over signs, the squared gradient is the squared output
        error per unit of error.

        `parts` are states with all values of the steps from a first one on, last steps first, with the output values in
        the first state; values no longer needed are dropped. `powers` are the mean squares of the outputs and of
        operands without a rule, by slot.
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
        """Propagate from the results of a step to its operands."""
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
        if states(op, Traceable):
            return self._moved(index, step, operands, given)
        gradient, result = given[0], results[0]
        if gradient is None:
            return None
        fields: Mapping[str, Any] = op.__dict__
        if isinstance(op, FusesRelu) and fields["do_relu"]:
            gradient = gradient * is_open(result, fields["relu_limit"])
        if isinstance(op, Differentiable):
            return op.adjoint(operands, result, gradient)
        if isinstance(op, Elementwise):
            return self._numeric(index, operands, gradient)
        return None

    def _moved(
        self, index: int, step: Step, operands: list[Array], given: list[Array | None]
    ) -> Sequence[Array | None] | None:
        """The rule for ops that only move elements, derived from the op itself."""
        moved = [position for position, slot in enumerate(step.operands) if slot not in self.net.constants]
        if sum(operands[position].size for position in moved) >= MOST_ELEMENTS:
            return None
        if index not in self.sources:
            op = step.operation.op
            numbered, first = list(operands), 1  # 0 is what paddings bring in
            for position, array in enumerate(operands):
                if position in moved:
                    ids = np.arange(first, first + array.size, dtype=np.float32)
                    numbered[position], first = ids.reshape(array.shape), first + array.size
                elif isinstance(op, Concatenates):
                    numbered[position] = np.zeros(array.shape, np.float32)
            bare: Any = op.without_fill() if isinstance(op, Traceable) else op
            found = bare.evaluate(step.node, numbered)
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
        """The rule for element-wise ops: a difference quotient per operand."""
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
            result.append(unbroadcast(gradient * slope, array.shape))
        return result
