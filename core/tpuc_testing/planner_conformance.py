"""What every memory planner promises, checked by inheriting one class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import ClassVar

from hypothesis import given, settings
from hypothesis import strategies as st
from tpuc.api.planning import BufferInfo, Planner, PoolAllocation, PoolInfo
from tpuc.errors import TpucError


def check_plan(
    buffers: Sequence[BufferInfo], pools: Sequence[PoolInfo], plan: Mapping[str, PoolAllocation]
) -> dict[str, int]:
    """The highest used byte of every pool; AssertionError where the plan breaks a rule."""
    by_name = {pool.name: pool for pool in pools}
    peaks = dict.fromkeys(by_name, 0)
    assert sorted(plan) == sorted(buffer.name for buffer in buffers), "a place for every buffer, and no other"
    for buffer in buffers:
        place = plan[buffer.name]
        pool = by_name[place.pool]
        assert not buffer.pool_candidates or place.pool in buffer.pool_candidates, f"{buffer.name}: a pool of its own"
        assert place.offset >= 0, f"{buffer.name}: inside the pool"
        assert place.offset % max(buffer.alignment, pool.alignment) == 0, f"{buffer.name}: aligned"
        peaks[place.pool] = max(peaks[place.pool], place.offset + buffer.size_bytes)
        assert pool.size_bytes is None or peaks[place.pool] <= pool.size_bytes, f"{buffer.name}: inside the pool"
    for one, two in combinations(buffers, 2):
        if two.name in one.conflicts or one.name in two.conflicts:
            a, b = plan[one.name], plan[two.name]
            apart = a.offset + one.size_bytes <= b.offset or b.offset + two.size_bytes <= a.offset
            assert a.pool != b.pool or apart, f"{one.name} and {two.name} are live at once and overlap"
    return peaks


def lists_of_buffers(most: int = 12) -> st.SearchStrategy[list[BufferInfo]]:
    """Buffers with any conflicts, also such as no program has."""

    @st.composite
    def draw_list(draw: st.DrawFn) -> list[BufferInfo]:
        count = draw(st.integers(0, most))
        pairs = [(one, two) for one in range(count) for two in range(one) if draw(st.booleans())]
        return [
            BufferInfo(
                f"b{member}",
                draw(st.integers(1, 200)),
                draw(st.sampled_from([1, 4, 16, 64])),
                frozenset(f"b{one + two - member}" for one, two in pairs if member in (one, two)),
            )
            for member in range(count)
        ]

    return draw_list()


class PlannerConformance:
    """Inherit, and state `planner`; everything that a planner promises is then tested."""

    planner: ClassVar[Planner]

    def test_nothing_that_is_live_at_once_overlaps(self) -> None:
        @given(lists_of_buffers())
        @settings(max_examples=50)
        def hold(buffers: list[BufferInfo]) -> None:
            pools = [PoolInfo("memory", None, 4)]
            plan = self.planner.plan(buffers, pools)
            check_plan(buffers, pools, plan)
            assert self.planner.plan(buffers, pools) == plan, "same buffers, same plan"

        hold()

    def test_pools_are_filled_in_their_order_and_never_over(self) -> None:
        first, second = PoolInfo("first", 100), PoolInfo("second")
        both = frozenset({"a", "b"})
        buffers = [BufferInfo(name, 60, 1, both - {name}, ("first", "second")) for name in ("a", "b")]
        assert check_plan(buffers, [second, first], self.planner.plan(buffers, [second, first])) == {
            "first": 60,
            "second": 60,
        }

    def test_what_fits_nowhere_is_an_error(self) -> None:
        buffer = BufferInfo("large", 101, 1, frozenset(), ("first",))
        said = ""
        try:
            self.planner.plan([buffer], [PoolInfo("first", 100), PoolInfo("second")])
        except TpucError as error:
            said = str(error)
        assert said, "a plan for a buffer that is larger than its only pool"
        assert "large" in said, "the sentence names the buffer"
        assert "101" in said, "the sentence says its size"
