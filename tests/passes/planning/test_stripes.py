"""Stripes of rows through cascades: the receptive field of each stripe, and how often rows are computed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Block, Chip, Node, Op, Operation, TensorType, Tile
from tpuc.ir.types import I8
from tpuc_plan.regions.cascade_cost import CascadeCosts, Estimate, IncrementalEstimate, ScheduleProfile
from tpuc_plan.regions.cascade_steps import CascadeSteps
from tpuc_plan.regions.cascades import CascadeFinder
from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.cost import Cycles
from tpuc_plan.tasks.plan import Residency, Stripes
from tpuc_plan.tasks.steps import Step, StepBuilder, TensorLoad
from tpuc_plan.tasks.stripes import Band, Cascade
from tpuc_plan.tasks.task import KernelFacts, TileTask

from tests.passes.planning.tiny import TinyChip, TinyConv, TinyOp

CHANNELS = 4


def chain(length: int, h: int, w: int, n: int = 1) -> list[TileTask]:
    """3 × 3 convolutions, each of the result of the one before."""
    shape = TensorType((n, CHANNELS, h, w), I8)
    filters = TensorType((CHANNELS, CHANNELS, 3, 3), I8)
    chip: Chip = TinyChip()  # pyright: ignore[reportAssignmentType]  # only what planning asks for
    value, weights = Block((shape, filters)).arguments
    tasks: list[TileTask] = []
    for number in range(length):
        operation = Operation(Op(), (value, weights), (shape,))
        node = Node(TinyOp(), (shape, filters), (shape,), f"conv{number}")
        facts = KernelFacts(node, TinyConv().kernels(node)[0], chip)
        sizes = {axis.name: axis.size for axis in facts.space.axes}
        tasks.append(TileTask(operation, facts, sizes, Residency.streamed(1)))
        value = operation.result
    return tasks


def cascade_of(tasks: list[TileTask], stripes: Stripes, written_back: list[bool] | None = None) -> Cascade:
    none = [frozenset[int]()] * len(tasks)
    return Cascade(tasks, stripes, written_back or [task is tasks[-1] for task in tasks], AliasSets(), none)


def steps_of(tasks: list[TileTask], stripes: Stripes) -> list[Step]:
    planned = [task.planned(plan) for task, plan in zip(tasks, cascade_of(tasks, stripes).plans(), strict=True)]
    builder = StepBuilder(Cycles(tasks[0].chip), AliasSets())
    CascadeSteps(builder, Cascade.of(planned, AliasSets()), Cycles(tasks[0].chip)).run()
    return builder.result.steps


def test_a_first_task_that_ends_with_a_transfer_is_a_stripe_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = chain(3, 6, 4)
    plain = [step.task.node.name for step in steps_of(tasks, Stripes(0, 1, 3))]
    assert plain == ["conv0", "conv1", "conv2"] * 3

    def is_first(_: Cycles, task: TileTask, tiles: Sequence[Tile]) -> bool:
        return task.node.name == "conv0" and len(tiles) == 1

    monkeypatch.setattr(Cycles, "end_with_transfers", is_first)
    steps = steps_of(tasks, Stripes(0, 1, 3))
    assert [step.task.node.name for step in steps] == ["conv0", *["conv0", "conv1", "conv2"] * 2, "conv1", "conv2"]
    first = [steps[index] for index in (0, 1, 4)]
    for made, read in zip(first, (2, 5, 7), strict=True):
        place = steps[read].operands[0]
        assert place is not None
        assert place.buffer is made.results[0].buffer
        assert place.buffer.last == read


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 2), st.booleans(), st.data())
def test_halos_grow_backwards(length: int, h: int, n: int, is_line: bool, data: st.DataObject) -> None:
    """The columns of a single row count as rows."""
    parts = data.draw(st.integers(1, h))
    tasks = chain(length, 1, h, n) if is_line else chain(length, h, 4 if h > 1 else 1, n)
    stored: list[tuple[int, int]] = []
    for number, piece in enumerate(cascade_of(tasks, Stripes(0, 1, parts)).all()):
        batch, part = divmod(number, parts)
        share = piece.shares[-1]
        assert share is not None
        assert share.batches == (batch, batch + 1)
        assert share.rows == (h * part // parts, h * (part + 1) // parts)
        stored += [(batch, row) for row in range(*share.rows)]
        for point, task in enumerate(tasks):
            halo = length - 1 - point  # a row above and below for every convolution behind
            first, end = max(share.rows[0] - halo, 0), min(share.rows[1] + halo, h)
            assert piece.bands[(task.operation.result,)] == Band((batch, batch + 1), (first, end))
        halo = length
        loaded = piece.bands[(tasks[0].operation.operands[0],)]
        assert loaded.rows == (max(share.rows[0] - halo, 0), min(share.rows[1] + halo, h))
    assert stored == [(batch, row) for batch in range(n) for row in range(h)]


def test_a_value_with_two_users_covers_both() -> None:
    first, second = chain(2, 8, 4)
    value = first.operation.result
    shape = value.tensor
    operation = Operation(Op(), (value, second.operation.operands[1]), (shape,))
    third = replace(second, operation=operation)
    one, two = cascade_of([first, second, third], Stripes(0, 1, 2), [False, True, True]).all()
    assert one.bands[(value,)].rows == (0, 5)
    assert two.bands[(value,)].rows == (3, 8)


def test_a_result_that_nobody_reads_or_stores_is_refused() -> None:
    tasks = chain(2, 8, 4)
    with pytest.raises(ValueError, match="nobody reads"):
        cascade_of(tasks[:1], Stripes(0, 1, 2), [False]).stripe(0)


def test_steps_load_and_store_every_row_once_but_for_halos() -> None:
    h, parts = 12, 3
    tasks = chain(2, h, 4)
    assert [plan.residency for plan in cascade_of(tasks, Stripes(0, 1, parts)).plans()] == [
        Residency(),
        Residency(resident_in=frozenset({0}), written_back=frozenset({0})),
    ]
    steps = steps_of(tasks, Stripes(0, 1, parts))
    assert [step.task.operation for step in steps] == [task.operation for task in tasks] * parts
    loads = [load for step in steps for load in step.loads]
    rows = [load.source.shape[2] for load in loads if isinstance(load, TensorLoad)]
    assert rows == [6, 8, 6]  # 4 of each third, and two on every side that has more
    assert len(loads) - len(rows) == 2  # the constants of both stay from stripe to stripe
    stores = [store for step in steps for store in step.stores]
    assert [(store.target.address, store.target.shape) for store in stores] == [
        (4 * 4 * part, (1, CHANNELS, 4, 4)) for part in range(parts)
    ]


def test_constants_that_do_not_stay_are_loaded_in_every_stripe() -> None:
    tasks = chain(2, 12, 4)
    steps = steps_of(tasks, Stripes(0, 1, 3, resident=False))
    blocks = [load for step in steps for load in step.loads if not isinstance(load, TensorLoad)]
    assert len(blocks) == 2 * 3


def test_at_most_half_of_the_rows_are_computed_twice() -> None:
    tasks = chain(4, 12, 4)
    budget = 10**6
    for parts in (1, 2, 3, 4, 6, 12):
        cascade = cascade_of(tasks, Stripes(0, 1, parts))
        estimate = IncrementalEstimate(cascade, [frozenset[int]()] * 4, Cycles(tasks[0].chip))
        # The first convolution computes three rows more on both sides of every cut, as far as there are rows.
        cuts = [12 * part // parts for part in range(parts + 1)]
        rows = sum(min(end + 3, 12) - max(begin - 3, 0) for begin, end in itertools.pairwise(cuts))
        profiles = [estimate.profile(start, budget) for start in (3, 2, 1, 0)]
        assert (profiles[-1] is not None) == (rows <= 18), parts
        assert profiles[0] is not None


def test_of_cascades_that_look_alike_one_is_profiled_whatever_the_budget() -> None:
    costs = CascadeCosts(Cycles(chain(1, 4, 4)[0].chip))
    asked: list[int] = []

    def estimate(key: str, budget: int) -> Estimate | None:
        def make() -> ScheduleProfile | None:
            asked.append(budget)
            cascade = cascade_of(chain(2, 12, 4), Stripes(0, 1, 3))
            return IncrementalEstimate(cascade, [frozenset[int]()] * 2, costs.cycles).profile(0, budget)

        profile = costs.profile(key, budget, make)
        return None if profile is None else profile.estimate(budget)

    large = estimate("a", 10**6)
    assert large is not None
    assert estimate("a", large.lane_bytes) is not None
    assert estimate("a", large.lane_bytes - 1) is None
    assert asked == [10**6]
    assert estimate("b", 1) is None
    assert estimate("b", 2) is None  # the first stripe does not fit: the others were not looked at
    assert asked == [10**6, 1]
    assert estimate("b", 10**6) == large
    assert asked == [10**6, 1, 10**6]


def test_cascades_are_found_where_values_go_through_ddr() -> None:
    """Values take 160 bytes and sums 640, so whole ones do not fit 700; no stripe fits 50."""
    tasks = chain(3, 40, 4)
    cycles = Cycles(tasks[0].chip)
    builder = StepBuilder(cycles, AliasSets())
    for task in tasks:
        builder.add(task.with_sizes({**task.sizes, "h": 5}))
    ends = [tasks[-1].operation.result]
    (cascade,) = CascadeFinder(tasks, ends, CascadeCosts(cycles), AliasSets(), 700).run(builder.result)
    assert (cascade.start, len(cascade.tasks)) == (0, 3)
    assert cascade.stripes.parts > 1
    assert cascade.lane_bytes <= 700
    assert CascadeFinder(tasks, ends, CascadeCosts(cycles), AliasSets(), 50).run(builder.result) == []


def test_stripes_that_cannot_be_computed() -> None:
    tasks = chain(2, 12, 4)
    with pytest.raises(ValueError, match="a result that nobody reads"):
        cascade_of(tasks, Stripes(0, 1, 3), [False, False]).stripe(0)
