"""The order of transfers: nothing before its data or after its use, local memory no fuller than allowed."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from tpuc.api import DdrTensor, Engine, LocalTensor, Phase, Tile, Value
from tpuc.ir.types import I8
from tpuc_plan.regions.placement import place_buffers, rested
from tpuc_plan.regions.region import Region, schedule_and_place
from tpuc_plan.regions.schedule import Item, Scheduler, buffer_of, live_bytes
from tpuc_plan.tasks.cost import Share
from tpuc_plan.tasks.steps import BlockLoad, Buffer, Place, Step, Steps, Store, TensorLoad

from tests.passes.planning.tiny import TinyLmem

ALIGNMENT = 4
TENSOR = LocalTensor(0, (1, 1, 1, 1), "aligned", I8)
SOURCE = DdrTensor(0, (1, 1, 1, 1), (1, 1, 1, 1), I8)
NOTHING: Any = None


def chain(rows: list[tuple[int, int, int, bool, bool]]) -> Steps:
    """Steps of (compute cycles, load cycles, bytes, is stored, reads what the step before stored)."""
    steps = Steps()
    before: Value | None = None
    for index, (compute, load, size, stored, reads) in enumerate(rows):
        weights, result = Buffer(size, index, index), Buffer(size, index, index)
        steps.buffers += [weights, result]
        place = Place(result, 0, TENSOR)
        loads: list[TensorLoad | BlockLoad] = [BlockLoad(NOTHING, weights, NOTHING, load)]
        if reads and before is not None:
            operand = Buffer(size, index, index)
            steps.buffers.append(operand)
            loads.append(TensorLoad(NOTHING, before, (before,), 0, Place(operand, 0, TENSOR), SOURCE, load))
        value = cast(Any, object())
        stores = (Store(value, place, SOURCE, load),) if stored else ()
        before = value if stored else None
        tile = Tile((), (), ())
        steps.steps.append(Step(NOTHING, tile, Phase.ONLY, tuple(loads), stores, (), (place,), (), (), compute))
    return steps


ROWS = st.lists(
    st.tuples(st.integers(1, 50), st.integers(1, 50), st.integers(1, 40), st.booleans(), st.booleans()),
    min_size=1,
    max_size=12,
)


def position(order: list[Item], wanted: object) -> int:
    return next(index for index, item in enumerate(order) if item is wanted)


@given(ROWS, st.integers(0, 400))
def test_program_order_keeps_the_meaning(rows: list[tuple[int, int, int, bool, bool]], capacity: int) -> None:
    steps = chain(rows)
    order = list(Scheduler(steps, {}, capacity, ALIGNMENT).run().order)
    assert [item for item in order if isinstance(item, Step)] == steps.steps
    assert len(order) == sum(1 + len(step.loads) + len(step.stores) for step in steps.steps)
    stores = {store.value: store for step in steps.steps for store in step.stores}
    for step in steps.steps:
        for load in step.loads:
            assert position(order, load) < position(order, step)
            for writer in load.writers if isinstance(load, TensorLoad) else ():
                assert position(order, stores[writer]) < position(order, load)
        for store in step.stores:
            assert position(order, step) < position(order, store)


@given(ROWS, st.integers(0, 400))
def test_a_buffer_lives_from_its_load_to_its_store(rows: list[tuple[int, int, int, bool, bool]], capacity: int) -> None:
    steps = chain(rows)
    schedule = Scheduler(steps, {}, capacity, ALIGNMENT).run()
    order = list(schedule.order)
    computed = np.cumsum([isinstance(item, Step) for item in order])
    for index, step in enumerate(steps.steps):
        for load in step.loads:
            assert schedule.live[buffer_of(load)] == (computed[position(order, load)], index)
        for store in step.stores:
            # What is loaded before the next step and lives from then on may come after the store.
            assert schedule.live[store.place.buffer][1] >= min(computed[position(order, store)], len(rows)) - 1
    # Early loads and late stores never take more than they may; what a step needs at least it has in any case.
    used, needed = (live_bytes(live, len(rows), ALIGNMENT) for live in (schedule.live, steps.live))
    assert (used <= np.maximum(needed, capacity)).all()


def test_what_follows_need_not_wait_for_a_transfer_that_it_does_not_read() -> None:
    steps = chain([(100, 10, 4, False, False), (100, 10, 4, False, False)])
    shares = (Share(Engine.COMPUTE, 40, 0), Share(Engine.DMA, 60, 1))
    steps.steps[0] = replace(steps.steps[0], shares=shares)
    assert Scheduler(steps, {}, 400, ALIGNMENT).run().cycles == 10 + 40 + 100
    steps.steps[1] = replace(steps.steps[1], operands=steps.steps[0].results)
    assert Scheduler(steps, {}, 400, ALIGNMENT).run().cycles == 10 + 40 + 60 + 100
    steps = chain([(100, 10, 4, False, False), (30, 50, 4, False, False)])
    steps.steps[0] = replace(steps.steps[0], shares=shares)
    # A load of 50 that begins beside the 40 comes before the 60.
    assert Scheduler(steps, {}, 400, ALIGNMENT).run().cycles == 10 + 50 + 60


def test_idle_time_is_used_for_later_loads() -> None:
    steps = chain([(100, 10, 4, False, False), (100, 90, 4, False, False), (100, 90, 4, False, False)])
    eager = Scheduler(steps, {}, 400, ALIGNMENT).run()
    assert eager.cycles == 10 + 300  # both later loads run beside the first two tiles
    tight = Scheduler(chain([(100, 10, 4, False, False), (100, 90, 4, False, False)]), {}, 0, ALIGNMENT).run()
    assert tight.cycles == 10 + 100 + 100 + 90  # no room for an early load: it waits until the tile before it ends


@given(ROWS, st.integers(0, 11))
def test_nothing_early_or_late_lies_where_local_memory_is_reserved(
    rows: list[tuple[int, int, int, bool, bool]], step: int
) -> None:
    steps = chain(rows)
    step = min(step, len(rows) - 1)
    reserved = np.zeros(len(rows) + 1, np.int64)
    reserved[step] = 400
    live = Scheduler(steps, {}, 400, ALIGNMENT, reserved).run().live
    assert live_bytes(live, len(rows), ALIGNMENT)[step] == live_bytes(steps.live, len(rows), ALIGNMENT)[step]


def test_what_is_being_stored_keeps_its_bytes_where_there_is_space() -> None:
    rows = [(10, 30, 4, True, False), *[(10, 1, 4, False, False)] * 4]
    for capacity, last in ((400, 3), (8, 0)):  # it is stored from 40 to 70, and steps begin at 40, 50, 60 and 70
        steps = chain(rows)
        live = Scheduler(steps, {}, capacity, ALIGNMENT).run().live
        assert live[steps.steps[0].results[0].buffer] == (0, last)


@given(ROWS, st.integers(0, 400))
def test_what_is_being_stored_takes_no_more_than_there_is(
    rows: list[tuple[int, int, int, bool, bool]], capacity: int
) -> None:
    steps = chain(rows)
    live = Scheduler(steps, {}, capacity, ALIGNMENT).run().live
    needed = live_bytes(steps.live, len(rows), ALIGNMENT)
    assert (live_bytes(live, len(rows), ALIGNMENT) <= np.maximum(needed, capacity)).all()


@given(ROWS)
def test_buffers_lie_where_nothing_lay_before_if_there_is_space(rows: list[tuple[int, int, int, bool, bool]]) -> None:
    lmem = TinyLmem()
    live = Scheduler(chain(rows), {}, lmem.lane_bytes, ALIGNMENT).run().live
    placed = place_buffers(live, lmem)
    assume(placed is not None)
    assert placed is not None
    moved = rested(placed, live, lmem, live.keys())
    for one, other in itertools.combinations(live, 2):
        together = live[one][0] <= live[other][1] and live[other][0] <= live[one][1]
        apart = moved[one] + one.size <= moved[other] or moved[other] + other.size <= moved[one]
        assert apart or not together
    assert all(0 <= start <= lmem.lane_bytes - buffer.size for buffer, start in moved.items())


def test_a_buffer_takes_the_bytes_that_were_unused_for_longest() -> None:
    lmem = TinyLmem()
    first, second, third, fourth = (Buffer(lmem.lane_bytes // 4, step, step) for step in range(4))
    live = {buffer: (buffer.first, buffer.last) for buffer in (first, second, third, fourth)}
    moved = rested(dict.fromkeys(live, 0), live, lmem, live.keys())
    assert len(set(moved.values())) == 4
    whole = Buffer(lmem.lane_bytes, 4, 4)
    assert rested({**moved, whole: 0}, {**live, whole: (4, 4)}, lmem, {whole})[whole] == 0  # nowhere else
    assert rested(dict.fromkeys(live, 0), live, lmem, set()) == dict.fromkeys(live, 0)  # results stay


def test_one_step_that_is_hard_to_place_does_not_keep_the_others_from_loading_early() -> None:
    sizes = [(10, 10, 36), (10, 10, 44), (20, 5, 100), (10, 5, 60), (20, 5, 120), (20, 5, 100), (10, 20, 36)]
    steps = chain([(*row, True, False) for row in (*sizes, (10, 20, 100))])
    lmem = TinyLmem()
    evenly: list[int] = []
    for percent in (100, 97, 92, 84, 70, 50, 0):
        schedule = Scheduler(steps, {}, lmem.lane_bytes * percent // 100, lmem.alignment).run()
        if place_buffers(schedule.live, lmem) is not None:
            evenly.append(schedule.cycles)
    chip = cast(Any, SimpleNamespace(lmem=lmem))
    assert schedule_and_place(Region(steps), chip).cycles < min(evenly)
