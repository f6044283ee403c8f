"""What commands touch: conflicts are those of their regions, however far these reach."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from tpuc.machine.instruction import Region
from tpuc.machine.touched import BLOCK_BITS, BLOCKS, Touched

ROUND = BLOCKS << BLOCK_BITS
"""Bytes after which the same bits come again."""


@st.composite
def regions(draw: st.DrawFn) -> Region:
    """Near and far, short and longer than all blocks, beginning and ending around the borders of blocks."""
    border = draw(st.sampled_from((0, 64, 4096, ROUND - 64, ROUND, 2**32)))
    start = max(border + draw(st.integers(-2, 70)), 0)
    size = draw(st.sampled_from((1, 2, 63, 64, 65, 700, ROUND - 64, ROUND, 3 * ROUND)))
    lane = draw(st.integers(0, 2))
    return Region(draw(st.sampled_from(("lmem", "ddr"))), start, start + size, lane, lane + draw(st.integers(1, 2)))


def bytes_meet(one: Region, two: Region) -> bool:
    same = one.space == two.space and max(one.start, two.start) < min(one.end, two.end)
    return same and max(one.first_lane, two.first_lane) < min(one.end_lane, two.end_lane)


MANY = st.lists(regions(), max_size=3)


@given(MANY, MANY, MANY, MANY)
def test_conflicts_are_writes_to_what_the_other_touches(
    reads: Sequence[Region], writes: Sequence[Region], other_reads: Sequence[Region], other_writes: Sequence[Region]
) -> None:
    mine, other = Touched.of(reads, writes), Touched.of(other_reads, other_writes)
    pairs = [(w, x) for w in writes for x in (*other_reads, *other_writes)]
    pairs += [(w, x) for w in other_writes for x in (*reads, *writes)]
    expected = [writer for writer, touched in pairs if bytes_meet(writer, touched)]
    for found in (mine.conflict(other), other.conflict(mine)):
        assert (found in expected) if expected else found is None
