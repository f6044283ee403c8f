"""The greedy planner: never overlaps what conflicts, reaches the bound where one exists, respects pools."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import BufferInfo, PoolInfo, TpucError
from tpuc_passes.planning.planners.greedy import GREEDY, lower_bound, peak_bytes

POOL = PoolInfo("ram")
SPANS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(1, 1000)), min_size=1, max_size=25)


def _buffers(spans: list[tuple[int, int, int]], alignment: int = 1) -> list[BufferInfo]:
    """Buffers that live over `[start, start + length]`."""
    result: list[BufferInfo] = []
    for index, (start, length, size) in enumerate(spans):
        conflicts = frozenset(
            f"b{other}"
            for other, (first, extent, _) in enumerate(spans)
            if other != index and first <= start + length and start <= first + extent
        )
        result.append(BufferInfo(f"b{index}", size, alignment, conflicts))
    return result


@given(SPANS, st.sampled_from([1, 16, 4096]))
def test_conflicting_buffers_never_overlap_and_start_aligned(spans: list[tuple[int, int, int]], alignment: int) -> None:
    buffers = _buffers(spans, alignment)
    plan = GREEDY.plan(buffers, [POOL])
    places = {b.name: (plan[b.name].offset, plan[b.name].offset + b.size_bytes) for b in buffers}
    for buffer in buffers:
        assert places[buffer.name][0] % alignment == 0
        for other in buffer.conflicts:
            assert places[buffer.name][1] <= places[other][0] or places[other][1] <= places[buffer.name][0]


@given(SPANS)
def test_the_bound_is_what_lives_at_once(spans: list[tuple[int, int, int]]) -> None:
    buffers = _buffers(spans)
    live = max(sum(size for start, length, size in spans if start <= point <= start + length) for point, _, _ in spans)
    assert lower_bound(buffers) <= live <= peak_bytes(buffers, GREEDY.plan(buffers, [POOL]))


def test_a_chain_of_layers_reuses_two_buffers() -> None:
    # Each layer's output lives until the next layer has read it: only neighbours conflict.
    sizes = [100, 80, 60, 80, 100]
    buffers = _buffers([(index, 1, size) for index, size in enumerate(sizes)])
    assert peak_bytes(buffers, GREEDY.plan(buffers, [POOL])) == 180


def test_liveness_is_not_transitive() -> None:
    # a-b and b-c conflict, a-c does not: a and c may share, so 30 bytes are enough (SPEC U8).
    buffers = [
        BufferInfo("a", 10, conflicts=frozenset({"b"})),
        BufferInfo("b", 20, conflicts=frozenset({"a", "c"})),
        BufferInfo("c", 10, conflicts=frozenset({"b"})),
    ]
    plan = GREEDY.plan(buffers, [POOL])
    assert peak_bytes(buffers, plan) == 30
    assert plan["a"].offset == plan["c"].offset


def test_a_full_pool_falls_back_to_the_next_candidate() -> None:
    everything = frozenset({"a", "b"})
    buffers = [
        BufferInfo(name, 600, conflicts=everything - {name}, pool_candidates=("dtcm", "sram")) for name in ("a", "b")
    ]
    plan = GREEDY.plan(buffers, [PoolInfo("sram"), PoolInfo("dtcm", 1000)])
    assert [plan["a"].pool, plan["b"].pool] == ["dtcm", "sram"]


def test_a_buffer_that_fits_no_pool_is_refused() -> None:
    with pytest.raises(TpucError) as caught:
        GREEDY.plan([BufferInfo("big", 2000, pool_candidates=("dtcm",))], [PoolInfo("dtcm", 1000)])
    assert str(caught.value) == (
        "buffer 'big': 2000 bytes fit none of its pools: dtcm (1000 bytes); enlarge a pool or allow another one"
    )
