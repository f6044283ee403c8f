"""A calibrated TOP network in which every op can run in floats or on the chip's integers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Any

import numpy as np
from tpuc.api import (
    ChipDescription,
    Module,
    NetworkInput,
    Node,
    Operation,
    TensorType,
    UniformPerAxis,
    Value,
    as_stored,
)
from tpuc.api.evaluation import ABSENT_SLOT, Array, Plan, Step, make_plan
from tpuc_driver.api.host import Pool, shares
from tpuc_ops.convolution import exact_dtype
from tpuc_ops.quantized import Product
from tpuc_ops.traits import ComputedInFloat, KeepsGrid, states
from tpuc_optimize.canonicalization.indices import exact_numbers
from tpuc_optimize.canonicalization.masks import masked_scores

from tpuc_quantize.simulation.batching import batch_limit, batched_node
from tpuc_quantize.simulation.grids import (
    ChannelGrid,
    Grid,
    channel_axis,
    grid_of,
    grid_of_uniform,
    scale_along,
    stored_filters,
)

Filters = dict[int, tuple[Array, Array]]
"""By step: the int8 filters of a product, and the steps of their channels."""
Evaluate = Callable[[int, "Sequence[Array]"], "Sequence[Array]"]


def product_of_integers(
    op: Any, node: Node, x: tuple[Array, float], filters: tuple[Array, Array], bias: Sequence[Array | None]
) -> Array:
    """The product of integers and their scale with int8 filters and theirs, in the float type that holds the sums
    exactly.
    """
    (integers, scale), (rows, scales) = x, filters
    sums: Array = op.sums(integers.astype(rows.dtype, copy=False), rows, whole=True)
    factors = scale_along(op, scales, sums.ndim) * np.float32(scale)
    sums = np.multiply(sums, factors, out=sums if sums.dtype == np.float32 else None, dtype=np.float32)
    return np.asarray(op.finished(node, sums, bias))


@dataclass
class State:
    """Values by slot while samples run; `grids` gives the grid of each value, None for floats. Values of `count`
    samples are one array, concatenated along the first axis.
    """

    values: list[Array | None]
    grids: list[Grid | None]
    count: int = 1

    def copy(self) -> State:
        """An independent copy."""
        return State([*self.values], [*self.grids], self.count)


@dataclass
class FakeNetwork:
    """The plan of a module with the grids of its calibrated values and its filters in both forms.

    `floats` names the ops that run in floats in an integer mode, `float_sums` integer products whose results are not
    rounded. `stored` are int8 filters, computed on first use; networks over the same weights may share them.
    """

    module: Module
    chip: ChipDescription | None = None
    mode: str = "int8"
    floats: frozenset[str] = frozenset()
    float_sums: frozenset[str] = frozenset()
    stored: Filters = field(default_factory=dict[int, "tuple[Array, Array]"])
    plan: Plan = field(init=False)
    grids: dict[int, Grid | None] = field(init=False, default_factory=dict[int, "Grid | None"])
    constants: frozenset[int] = field(init=False, default_factory=frozenset[int])
    """The slots of weights."""
    masked: frozenset[Operation] = field(init=False, default_factory=frozenset[Operation])
    """Ops that make masks and read masked scores: floats in every mode."""
    exact: frozenset[Operation] = field(init=False, default_factory=frozenset[Operation])
    """What computes indices: whole numbers in every mode."""
    _tensor_grids: dict[int, Grid | None] = field(init=False, default_factory=dict[int, "Grid | None"])
    _base: list[Array | None] = field(init=False, default_factory=list["Array | None"])
    _biases: dict[int, Array] = field(init=False, default_factory=dict[int, Array])
    _last_filters: dict[int, tuple[int, Array]] = field(init=False, default_factory=dict[int, "tuple[int, Array]"])
    """By thread."""
    _last_integers: dict[int, tuple[tuple[int, int], Array]] = field(
        init=False, default_factory=dict[int, "tuple[tuple[int, int], Array]"]
    )
    """By thread."""
    _nodes: dict[tuple[int, int], Node | None] = field(init=False, default_factory=dict[tuple[int, int], "Node | None"])
    """By step and number of samples."""

    def __post_init__(self) -> None:
        self.plan = make_plan(self.module)
        self.masked, self.exact = masked_scores(self.module), exact_numbers(self.module)
        self.constants = frozenset(slot for slot, _ in self.plan.constants)
        self._base = [None] * self.plan.slots
        self._base[0] = np.zeros((0,), np.float32)
        for slot, operation in self.plan.constants:
            array = as_stored(self.module.weights[operation.name], operation.result.tensor).view()
            array.setflags(write=False)
            self._base[slot] = array
        for index, step in enumerate(self.plan.steps):
            unrounded = step.operation.name in self.float_sums and self.is_product(index)
            for slot, value in zip(step.results, step.operation.results, strict=True):
                self.grids[slot] = None if unrounded else self._grid(value)
        self._tensor_grids = dict(self.grids)

    def _grid(self, value: Value) -> Grid | None:
        if not isinstance(value.type, TensorType):
            return None
        return grid_of(value.type, self.chip, self.mode, value.name)

    def set_elements(self, elements: Mapping[str, UniformPerAxis]) -> None:
        """Set the values stored with several scales; all others use their own grids."""
        for slot, grid in self._tensor_grids.items():
            element = elements.get(self.plan.names.get(slot, ""))
            self.grids[slot] = grid if element is None else grid_of_uniform(element)

    def constant(self, slot: int) -> Array | None:
        """The array of a weight."""
        return self._base[slot] if slot in self.constants else None

    def shift_bias(self, index: int, shift: Array) -> None:
        """Add a shift per channel to a product whenever it runs on integers."""
        bias = self.constant(self.plan.steps[index].operands[2])
        self._biases[index] = shift if bias is None else (bias.reshape(-1) + shift).reshape(bias.shape)

    def shift_biases(self, shifts: Mapping[str, Array]) -> None:
        """`shift_bias` by op name."""
        for index, step in enumerate(self.plan.steps):
            if step.operation.name in shifts and len(step.operands) > 2:
                self.shift_bias(index, shifts[step.operation.name])

    def can_be_integer(self, step: Step) -> bool:
        """True if the chip computes this op on integers, unless the quantize table says otherwise."""
        op = step.operation.op
        if (
            isinstance(op, (ComputedInFloat, NetworkInput))
            or step.operation in self.masked
            or step.operation in self.exact
        ):
            return False
        return any(self.grids.get(slot) is not None for slot in (*step.operands, *step.results))

    def layers(self) -> tuple[int, ...]:
        """The steps whose mode matters: integer ops that compute."""
        return tuple(
            index
            for index, step in enumerate(self.plan.steps)
            if self.can_be_integer(step) and not states(step.operation.op, KeepsGrid)
        )

    def start(self, inputs: Mapping[str, Array]) -> State:
        """A state with the inputs and weights."""
        values = [*self._base]
        for item in self.plan.inputs:
            values[item.slot] = np.asarray(inputs[item.name])
        return State(values, [None] * self.plan.slots)

    def start_all(self, samples: Sequence[Mapping[str, Array]]) -> list[State]:
        """Like `start`, with as many samples per state as should run at once."""
        count = batch_limit(self.plan)
        return [self._start_batch(samples[first : first + count]) for first in range(0, len(samples), count)]

    def _start_batch(self, samples: Sequence[Mapping[str, Array]]) -> State:
        first, *others = samples
        if not others:  # of scalars there is no row
            return self.start(first)
        state = self.start({name: np.concatenate([one[name] for one in samples]) for name in first})
        return replace(state, count=len(samples))

    def unbatched(self, states: Iterable[State]) -> list[State]:
        """The samples of the states, one state each."""
        return [
            State([self._own(slot, state, number) for slot in range(self.plan.slots)], [*state.grids])
            for state in states
            for number in range(state.count)
        ]

    def _own(self, slot: int, state: State, number: int) -> Array | None:
        array = state.values[slot]
        if array is None or state.count == 1 or slot in self.constants or slot == ABSENT_SLOT:
            return array
        rows = len(array) // state.count
        return array[number * rows : (number + 1) * rows]

    def operands(self, index: int, state: State, *, integer: bool) -> list[Array]:
        """The operands as a step reads them: when it is `integer`, on their grids, with int8 filters."""
        step = self.plan.steps[index]
        result: list[Array] = []
        for position, slot in enumerate(step.operands):
            array = state.values[slot]
            assert array is not None
            grid = self.grids.get(slot)
            if integer and position == 2 and index in self._biases:
                array = self._biases[index]
            elif integer and grid is not None and state.grids[slot] != grid:
                array = grid.round(array)
            elif integer and position == 1 and self.is_product(index):
                array = self.filters(index)
            result.append(array)
        return result

    def is_product(self, index: int) -> bool:
        """True for a product with constant filters."""
        step = self.plan.steps[index]
        return isinstance(step.operation.op, Product) and step.operands[1] in self.constants

    def filters(self, index: int) -> Array:
        """The int8 filters of a product, as floats."""
        last = self._last_filters.get(get_ident())
        if last is not None and last[0] == index:
            return last[1]
        if index not in self.stored:
            step = self.plan.steps[index]
            array = self._base[step.operands[1]]
            assert array is not None
            self.stored[index] = stored_filters(step.operation.op, array)  # a quarter of the memory of floats
        integers, scales = self.stored[index]
        filters = integers.astype(np.float32)  # half as long as a product of both types
        filters *= scales
        self._last_filters[get_ident()] = index, filters
        return filters

    def evaluate(self, index: int, operands: Sequence[Array]) -> list[Array]:
        """Evaluate the op of a step on given operands, as float32."""
        return self._evaluate(index, self.plan.steps[index].node, operands)

    def _evaluate(self, index: int, node: Node, operands: Sequence[Array]) -> list[Array]:
        op = self.plan.steps[index].operation.op
        with np.errstate(all="ignore"):  # infinities and NaN are results here, not accidents
            return [np.asarray(array) for array in op.evaluate(node, operands)]

    def run_step(self, index: int, state: State, *, integer: bool) -> None:
        """Run one step; results of integer ops lie on their grids."""
        step = self.plan.steps[index]
        integer = integer and self.can_be_integer(step)
        results = self._product_of_integers(index, state) if integer and self.is_product(index) else None
        if results is None:
            operands = self.operands(index, state, integer=integer)
            results = self._evaluate_all(index, operands, state.count)
        self.store(index, state, results, integer=integer)

    def _product_of_integers(self, index: int, state: State) -> list[Array] | None:
        """A product of integers and int8 filters whose sums are exact in float32 and scaled afterwards. None for other
        operands, and for several samples whose op takes one at a time.
        """
        step = self.plan.steps[index]
        grid, array = self.grids.get(step.operands[0]), state.values[step.operands[0]]
        node = step.node if state.count == 1 else self._node_of(index, state.count)
        if node is None or array is None or grid is None or isinstance(grid, ChannelGrid):
            return None
        filters, scales = self.integer_filters(index, grid.limit)
        bias = [self._biases[index]] if index in self._biases else [state.values[one] for one in step.operands[2:3]]
        return [
            product_of_integers(step.operation.op, node, (grid.integers(array), grid.scale), (filters, scales), bias)
        ]

    def integer_filters(self, index: int, limit: int) -> tuple[Array, Array]:
        """The int8 filters of a product and their scales, in the float type that holds sums with operands up to this
        limit.
        """
        if index not in self.stored:
            self.filters(index)
        integers, scales = self.stored[index]
        last = self._last_integers.get(get_ident())
        if last is None or last[0] != (index, limit):
            rows = np.moveaxis(integers, channel_axis(self.plan.steps[index].operation.op), 0)
            last = (index, limit), integers.astype(exact_dtype(limit, rows))
            self._last_integers[get_ident()] = last
        return last[1], scales

    def _evaluate_all(self, index: int, operands: Sequence[Array], count: int) -> Sequence[Array]:
        """Like `evaluate`, for that many samples."""
        if count == 1:
            return self.evaluate(index, operands)
        step = self.plan.steps[index]
        node = self._node_of(index, count)
        if node is not None:
            return self._evaluate(index, node, operands)
        shared = [slot in self.constants or slot == ABSENT_SLOT for slot in step.operands]
        parts = [
            [array] * count if is_shared else np.split(array, count)
            for array, is_shared in zip(operands, shared, strict=True)
        ]
        results = [self.evaluate(index, own) for own in zip(*parts, strict=True)]
        return [np.concatenate(one) for one in zip(*results, strict=True)]

    def _node_of(self, index: int, count: int) -> Node | None:
        """A step for that many samples at once, if possible."""
        if (index, count) not in self._nodes:
            step = self.plan.steps[index]
            self._nodes[index, count] = batched_node(step, self.constants | {ABSENT_SLOT}, count)
        return self._nodes[index, count]

    def store(self, index: int, state: State, results: Sequence[Array], *, integer: bool) -> None:
        """Store the results of a step according to its mode."""
        step = self.plan.steps[index]
        keeps = states(step.operation.op, KeepsGrid)
        for slot, array in zip(step.results, results, strict=True):
            grid = self.grids.get(slot) if integer else None
            if keeps:
                source = step.operands[0]
                grid = self.grids.get(source) if integer else state.grids[source]
            elif grid is not None:
                array = grid.round(array)
            state.values[slot], state.grids[slot] = array, grid

    def run(
        self,
        inputs: Mapping[str, Array],
        *,
        integer: bool | Collection[str],
        on_step: Callable[[int, State], None] | None = None,
        keep: bool | Collection[int] = False,
        steps: int | None = None,
        known: Mapping[str, Array] | None = None,
    ) -> State:
        """Run all steps, or the first ones. `integer`: every op that can be (except `floats`), none, or the named ones.
        Steps whose float results are all `known` are skipped.

        `on_step` is called with the state before each step. Values are dropped after their last use, except those that
        `keep` names (all, or slots).
        """
        kept = range(self.plan.slots) if keep is True else keep or ()
        state = self.start(inputs)
        for index, step in enumerate(self.plan.steps[:steps]):
            if on_step is not None:
                on_step(index, state)
            found = [known.get(self.plan.names.get(slot, "")) for slot in step.results] if known else [None]
            if any(array is None for array in found):
                self.run_step(index, state, integer=self.is_integer(step, integer))
            else:
                for slot, array in zip(step.results, found, strict=True):
                    state.values[slot] = array
            for slot in step.frees:
                if slot not in kept:
                    state.values[slot] = None
        return state

    def run_all(
        self, samples: Sequence[Mapping[str, Array]], pool: Pool, *, integer: bool, keep: Collection[int] = ()
    ) -> list[State]:
        """Run all steps for several samples on the threads of `pool`; returns the outputs, and the values in the slots
        `keep`.
        """
        states = self.start_all(samples)
        self.run_batches(range(len(self.plan.steps)), states, pool, integer=integer, keep=keep)
        return self.unbatched(states)

    def run_batches(
        self, steps: Iterable[int], states: Sequence[State], pool: Pool, *, integer: bool, keep: Collection[int] = ()
    ) -> None:
        """Run the steps of several samples on the threads of `pool`; each thread prepares an op's filters once for its
        samples. Values are dropped after their last use, except those in the slots `keep`.
        """

        def run(some: Sequence[State]) -> None:
            for index in steps:
                step = self.plan.steps[index]
                for state in some:
                    self.run_step(index, state, integer=self.is_integer(step, integer))
                    for slot in step.frees:
                        if slot not in keep:
                            state.values[slot] = None

        for _ in pool.here(run, shares(states, pool.threads)):
            pass

    def is_integer(self, step: Step, integer: bool | Collection[str]) -> bool:
        """True if the choice `integer` of `run` makes this op an integer one."""
        name = step.operation.name
        return (integer and name not in self.floats) if isinstance(integer, bool) else name in integer

    def outputs(self, state: State) -> dict[str, Array]:
        """The network's results in a final state."""
        result: dict[str, Array] = {}
        for name, slot in self.plan.outputs:
            array = state.values[slot]
            assert array is not None
            result[name] = array
        return result
