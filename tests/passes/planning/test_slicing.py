"""Slices of rows through runs of operations: what each slice needs, and how often rows are computed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Block, Chip, Node, Op, Operation, TensorType
from tpuc.ir.types import I8
from tpuc_passes.planning.cost import Cycles
from tpuc_passes.planning.places import Places
from tpuc_passes.planning.residency import Residency
from tpuc_passes.planning.runs import RunFinder, write_run
from tpuc_passes.planning.slice_cost import Estimate, Followed, Growth, RunCosts
from tpuc_passes.planning.sliced_steps import RunSteps
from tpuc_passes.planning.slicing import Run, Slicing, Window
from tpuc_passes.planning.steps import StepBuilder, TensorLoad
from tpuc_passes.planning.task import KernelFacts, TileTask

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
        facts = KernelFacts(Node(TinyOp(), (shape, filters), (shape,), f"conv{number}"), TinyConv())
        sizes = {axis.name: axis.size for axis in facts.space.axes}
        tasks.append(TileTask(operation, facts.node, facts.kernel, chip, sizes, facts))
        value = operation.result
    return tasks


def run_of(tasks: list[TileTask], slicing: Slicing) -> Run:
    none = [frozenset[int]()] * len(tasks)
    return Run(tasks, slicing, none, [task is tasks[-1] for task in tasks])


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 2), st.data())
def test_halos_grow_backwards(length: int, h: int, n: int, data: st.DataObject) -> None:
    parts = data.draw(st.integers(1, h))
    tasks = chain(length, h, 4, n)
    stored: list[tuple[int, int]] = []
    for number, piece in enumerate(run_of(tasks, Slicing(0, 1, parts)).slices()):
        batch, part = divmod(number, parts)
        share = piece.shares[-1]
        assert share is not None
        assert share.batches == (batch, batch + 1)
        assert share.rows == (h * part // parts, h * (part + 1) // parts)
        stored += [(batch, row) for row in range(*share.rows)]
        for point, task in enumerate(tasks):
            halo = length - 1 - point  # a row above and below for every convolution behind
            first, end = max(share.rows[0] - halo, 0), min(share.rows[1] + halo, h)
            assert piece.windows[(id(task.operation.result),)] == Window((batch, batch + 1), (first, end))
        halo = length
        loaded = piece.windows[(id(tasks[0].operation.operands[0]),)]
        assert loaded.rows == (max(share.rows[0] - halo, 0), min(share.rows[1] + halo, h))
    assert stored == [(batch, row) for batch in range(n) for row in range(h)]


def test_a_value_with_two_users_covers_both() -> None:
    first, second = chain(2, 8, 4)
    value = first.operation.result
    shape = value.tensor
    operation = Operation(Op(), (value, second.operation.operands[1]), (shape,))
    third = TileTask(operation, second.node, second.kernel, second.chip, second.sizes, second.facts)
    run = Run([first, second, third], Slicing(0, 1, 2), [frozenset[int]()] * 3, [False, True, True])
    one, two = run.slices()
    assert one.windows[(id(value),)].rows == (0, 5)
    assert two.windows[(id(value),)].rows == (3, 8)


def test_a_result_that_nobody_reads_or_stores_is_refused() -> None:
    tasks = chain(2, 8, 4)
    run = Run(tasks[:1], Slicing(0, 1, 2), [frozenset[int]()], [False])
    with pytest.raises(ValueError, match="nobody reads"):
        run.slice(0)


def test_steps_load_and_store_every_row_once_but_for_halos() -> None:
    h, parts = 12, 3
    tasks = chain(2, h, 4)
    run = run_of(tasks, Slicing(0, 1, parts))
    write_run(run)
    assert [Residency.of(task.operation) for task in tasks] == [
        Residency(frozenset(), frozenset(), frozenset(), frozenset()),
        Residency(frozenset({0}), frozenset(), frozenset(), frozenset({0})),
    ]
    builder = StepBuilder(Cycles(tasks[0].chip), Places([]))
    steps = list(RunSteps(builder, Run.of(tasks, Slicing(0, 1, parts)), Cycles(tasks[0].chip)).run())
    assert [step.task for step in steps] == tasks * parts
    loads = [load for step in steps for load in step.loads]
    rows = [load.source.shape[2] for load in loads if isinstance(load, TensorLoad)]
    assert rows == [6, 8, 6]  # 4 of each third, and two on every side that has more
    assert len(loads) - len(rows) == 2  # the constants of both stay from slice to slice
    stores = [store for step in steps for store in step.stores]
    assert [(store.target.address, store.target.shape) for store in stores] == [
        (4 * 4 * part, (1, CHANNELS, 4, 4)) for part in range(parts)
    ]


def test_constants_that_do_not_stay_are_loaded_in_every_slice() -> None:
    tasks = chain(2, 12, 4)
    slicing = Slicing(0, 1, 3, resident=False)
    run = run_of(tasks, slicing)
    write_run(run)
    assert Slicing.of(tasks[0].operation) == slicing
    builder = StepBuilder(Cycles(tasks[0].chip), Places([]))
    steps = list(RunSteps(builder, Run.of(tasks, slicing), Cycles(tasks[0].chip)).run())
    blocks = [load for step in steps for load in step.loads if not isinstance(load, TensorLoad)]
    assert len(blocks) == 2 * 3


def test_at_most_half_of_the_rows_are_computed_twice() -> None:
    tasks = chain(4, 12, 4)
    room = 10**6
    for parts in (1, 2, 3, 4, 6, 12):
        growth = Growth(run_of(tasks, Slicing(0, 1, parts)), [frozenset[int]()] * 4, Cycles(tasks[0].chip))
        # The first convolution computes three rows more on both sides of every cut, as far as there are rows.
        cuts = [12 * part // parts for part in range(parts + 1)]
        rows = sum(min(end + 3, 12) - max(begin - 3, 0) for begin, end in itertools.pairwise(cuts))
        followed = [growth.follow(start, room) for start in (3, 2, 1, 0)]
        assert (followed[-1] is not None) == (rows <= 18), parts
        assert followed[0] is not None


def test_runs_that_look_alike_are_followed_once_whatever_the_room() -> None:
    costs = RunCosts(Cycles(chain(1, 4, 4)[0].chip))
    asked: list[int] = []

    def estimate(key: str, room: int) -> Estimate | None:
        def follow() -> Followed | None:
            asked.append(room)
            tasks = chain(2, 12, 4)
            growth = Growth(run_of(tasks, Slicing(0, 1, 3)), [frozenset[int]()] * 2, costs.cycles)
            return growth.follow(0, room)

        followed = costs.follow(key, room, follow)
        return None if followed is None else followed.estimate(room)

    large = estimate("a", 10**6)
    assert large is not None
    assert estimate("a", large.need) is not None
    assert estimate("a", large.need - 1) is None
    assert asked == [10**6]
    assert estimate("b", 1) is None
    assert estimate("b", 2) is None  # the first slice does not fit: the others were not looked at
    assert asked == [10**6, 1]
    assert estimate("b", 10**6) == large
    assert asked == [10**6, 1, 10**6]


def test_runs_are_found_where_values_go_through_ddr() -> None:
    """Values take 160 bytes and sums 640, so whole ones do not fit 700; no slice fits 50."""
    tasks = chain(3, 40, 4)
    cycles = Cycles(tasks[0].chip)
    builder = StepBuilder(cycles, Places([]))
    for task in tasks:
        for _ in builder.add(task.with_sizes({**task.sizes, "h": 5}), Residency.alone(task.operation)):
            pass
    ends = [tasks[-1].operation.result]
    (run,) = RunFinder(tasks, ends, RunCosts(cycles), Places([]), 700).run(builder.result)
    assert (run.start, len(run.tasks)) == (0, 3)
    assert run.slicing.parts > 1
    assert run.need <= 700
    assert RunFinder(tasks, ends, RunCosts(cycles), Places([]), 50).run(builder.result) == []


def test_slices_that_cannot_be_computed() -> None:
    tasks = chain(2, 12, 4)
    none = [frozenset[int]()] * 2
    with pytest.raises(ValueError, match="a result that nobody reads"):
        Run(tasks, Slicing(0, 1, 3), none, [False, False]).slice(0)
