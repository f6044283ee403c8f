"""Every planner: nothing overlaps, the bound holds, pools are respected, and what does not fit is a sentence."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc.api import BufferInfo, Planner, PoolInfo, TpucError, UsageError
from tpuc_plan.planners.exact import Exact
from tpuc_plan.planners.greedy import GREEDY
from tpuc_plan.planners.hill_climb import HillClimb
from tpuc_plan.planners.packing import Packing
from tpuc_plan.planners.reference_count import REFERENCE_COUNT
from tpuc_testing.planner_conformance import PlannerConformance

from tests.passes.planning.planners.verify import Span, buffers_of, check_plan, least_peak, live_bytes

POOL = PoolInfo("ram")
PLANNERS: tuple[Planner, ...] = (GREEDY, HillClimb(moves=300), Exact(nodes=2000, moves=100), REFERENCE_COUNT)
each_planner = pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: planner.name)


def spans(most: int) -> st.SearchStrategy[list[Span]]:
    one = st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(1, 1000))
    return st.lists(one, min_size=1, max_size=most).map(
        lambda rows: [(a, a + length, size) for a, length, size in rows]
    )


class TestGreedy(PlannerConformance):
    planner = GREEDY


class TestHillClimb(PlannerConformance):
    planner = HillClimb(moves=200)


class TestExact(PlannerConformance):
    planner = Exact(nodes=1000, moves=100)


class TestReferenceCount(PlannerConformance):
    planner = REFERENCE_COUNT


@given(spans(25), st.sampled_from([1, 16, 4096]))
@settings(max_examples=60, deadline=None)
def test_no_plan_overlaps_or_goes_below_the_bound(rows: list[Span], alignment: int) -> None:
    buffers = buffers_of(rows, alignment)
    for planner in PLANNERS:
        peak = check_plan(buffers, [POOL], planner.plan(buffers, [POOL]))["ram"]
        assert live_bytes(rows) <= Packing.of(buffers).bound <= peak


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_conflicts_need_not_come_from_lifetimes(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 12))
    pairs = [(a, b) for a in range(count) for b in range(a) if data.draw(st.booleans())]
    buffers = [
        BufferInfo(
            f"b{member}",
            data.draw(st.integers(1, 100)),
            data.draw(st.sampled_from([1, 4, 16])),
            frozenset(f"b{a + b - member}" for a, b in pairs if member in (a, b)),
        )
        for member in range(count)
    ]
    bound = Packing.of(buffers).bound
    for planner in PLANNERS:
        assert bound <= check_plan(buffers, [POOL], planner.plan(buffers, [POOL]))["ram"]


@given(spans(40))
@settings(max_examples=40, deadline=None)
def test_the_bound_of_lifetimes_is_what_is_live_at_once(rows: list[Span]) -> None:
    assert Packing.of(buffers_of(rows)).bound == live_bytes(rows)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4), st.integers(1, 9)), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_exact_search_finds_the_least_peak(rows: list[tuple[int, int, int]]) -> None:
    buffers = buffers_of([(first, first + length, size) for first, length, size in rows])
    packed = Exact(nodes=100_000, moves=50).pack(Packing.of(buffers), None)
    assert packed.proven
    assert Packing.of(buffers).peak(packed.offsets) == least_peak(buffers)


def test_exact_search_proves_what_the_bound_cannot() -> None:
    # Five buffers on a ring of time: at most two live at once (bound 2), but a 5-cycle needs three places.
    ring = [BufferInfo(f"b{i}", 1, 1, frozenset({f"b{(i + 1) % 5}", f"b{(i - 1) % 5}"})) for i in range(5)]
    packing = Packing.of(ring)
    packed = Exact().pack(packing, None)
    assert (packing.bound, packing.peak(packed.offsets), packed.proven) == (2, 3, True)


def test_gaps_that_alignment_forces_are_in_the_bound() -> None:
    buffers = buffers_of([(0, 0, 10), (0, 0, 20), (0, 0, 5)], alignment=16)
    assert Packing.of(buffers).bound == 16 + 16 + 20  # 10 and 5 end in gaps, the topmost one need not
    assert check_plan(buffers, [POOL], Exact().plan(buffers, [POOL]))["ram"] == 52


@each_planner
def test_a_chain_of_layers_reuses_memory(planner: Planner) -> None:
    # Each layer's output lives until the next layer has read it: only neighbors conflict.
    buffers = buffers_of([(index, index + 1, size) for index, size in enumerate([100, 80, 60, 80, 100])])
    assert check_plan(buffers, [POOL], planner.plan(buffers, [POOL]))["ram"] == 180


@each_planner
def test_liveness_is_not_transitive(planner: Planner) -> None:
    # a-b and b-c conflict, a-c does not: a and c share, so 30 bytes are enough.
    buffers = [
        BufferInfo("a", 10, conflicts=frozenset({"b"})),
        BufferInfo("b", 20, conflicts=frozenset({"a", "c"})),
        BufferInfo("c", 10, conflicts=frozenset({"b"})),
    ]
    plan = planner.plan(buffers, [POOL])
    assert check_plan(buffers, [POOL], plan)["ram"] == 30
    assert plan["a"].offset == plan["c"].offset


@each_planner
def test_a_full_pool_falls_back_to_the_next_candidate(planner: Planner) -> None:
    buffers = buffers_of([(0, 0, 600), (0, 0, 600)], candidates=("dtcm", "sram"))
    pools = [PoolInfo("sram"), PoolInfo("dtcm", 1000)]
    plan = planner.plan(buffers, pools)
    assert check_plan(buffers, pools, plan) == {"dtcm": 600, "sram": 600}


def test_what_fits_stays_in_the_preferred_pool() -> None:
    buffers = buffers_of([(0, 1, 600), (0, 0, 600), (1, 1, 400), (2, 2, 1000)], candidates=("dtcm", "sram"))
    pools = [PoolInfo("dtcm", 1000), PoolInfo("sram")]
    plan = GREEDY.plan(buffers, pools)
    assert [plan[buffer.name].pool for buffer in buffers].count("sram") == 1
    assert check_plan(buffers, pools, plan) == {"dtcm": 1000, "sram": 600}


def test_more_of_a_pool_is_used_than_one_order_would() -> None:
    # The small buffers first would leave no room of 600 in the fast memory.
    buffers = buffers_of([(0, 0, 300), (0, 0, 300), (0, 0, 600), (0, 0, 400)], candidates=("fast", "slow"))
    plan = GREEDY.plan(buffers, [PoolInfo("fast", 1000), PoolInfo("slow")])
    assert sum(buffer.size_bytes for buffer in buffers if plan[buffer.name].pool == "fast") == 1000


@each_planner
@pytest.mark.parametrize(
    ("buffers", "pools", "error", "sentence"),
    [
        (
            [BufferInfo("big", 2000, pool_candidates=("dtcm",))],
            [PoolInfo("dtcm", 1000)],
            TpucError,
            (
                "buffer 'big' of 2000 bytes fits none of its pools, 'dtcm' of 1000 bytes; enlarge 'dtcm' by 1000 bytes "
                "or allow a larger pool"
            ),
        ),
        (
            buffers_of([(0, 0, 600), (0, 0, 500)], candidates=("dtcm",)),
            [PoolInfo("dtcm", 1000), PoolInfo("sram")],
            TpucError,
            (
                "pool 'dtcm' of 1000 bytes is too small for its 2 buffers, which take 1100 bytes (no plan needs less); "
                "enlarge it by 100 bytes or give its buffers another pool to fall back on"
            ),
        ),
        (
            [BufferInfo("a", 1, pool_candidates=("itcm",))],
            [PoolInfo("dtcm"), PoolInfo("sram")],
            UsageError,
            "buffer 'a' names pool 'itcm', which does not exist; known pools: dtcm, sram.",
        ),
        ([], [PoolInfo("dtcm"), PoolInfo("dtcm", 5)], UsageError, "pool 'dtcm' is given twice; keep one."),
        ([BufferInfo("a", 1)] * 2, [PoolInfo("dtcm")], UsageError, "buffer 'a' is given twice; keep one."),
        (
            [],
            [PoolInfo("dtcm", None, 64, 100)],
            UsageError,
            "pool 'dtcm' starts at 100, which is not a multiple of its alignment 64; start it at 128.",
        ),
        ([BufferInfo("a", 1)], [], TpucError, "buffer 'a' of 1 bytes has no pool to lie in; give one"),
    ],
)
def test_what_cannot_be_planned_is_said_with_the_way_out(
    planner: Planner, buffers: list[BufferInfo], pools: list[PoolInfo], error: type[TpucError], sentence: str
) -> None:
    with pytest.raises(TpucError) as caught:
        planner.plan(buffers, pools)
    assert (type(caught.value), str(caught.value)) == (error, sentence)


@each_planner
def test_the_same_buffers_give_the_same_plan(planner: Planner) -> None:
    rows = [(index % 7, index % 7 + index % 4, 1 + index * 37 % 101) for index in range(30)]
    assert planner.plan(buffers_of(rows), [POOL]) == planner.plan(buffers_of(rows), [POOL])


def test_the_climb_beats_the_greedy_orders_within_its_moves() -> None:
    # Twelve rectangles that fill 20 moments times 20 bytes exactly: a plan of 20 bytes exists.
    rows = [
        (0, 6, 7), (7, 13, 4), (14, 19, 9), (0, 3, 5), (4, 10, 8), (11, 16, 6),
        (17, 19, 11), (0, 3, 8), (4, 6, 5), (7, 10, 8), (11, 13, 10), (14, 16, 5),
    ]  # fmt: skip
    assert live_bytes(rows) == 20
    packing = Packing.of(buffers_of(rows))
    peaks = [packing.peak(HillClimb(moves=moves).pack(packing, None).offsets) for moves in (0, 500, 20_000)]
    assert peaks == sorted(peaks, reverse=True)
    assert peaks[-1] <= packing.peak(GREEDY.pack(packing, None).offsets)
