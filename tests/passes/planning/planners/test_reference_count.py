"""The reference-count scheme, clause by clause, and its worked example."""

from __future__ import annotations

import pytest
from tpuc.api import InvalidModel
from tpuc_plan.planners.reference_count import OpUse, Record, ReferenceCounts

from tests.families import each


def table(*, hold: tuple[str, ...] = (), using: tuple[int, ...] = (), ref_cnt: int = 0) -> ReferenceCounts:
    """One record, `old`, of 100 bytes at offset 64; a value `new` of 80 bytes is about to come."""
    records = [Record("old", 64, 100, ref_cnt)]
    return ReferenceCounts({"new": 80, "huge": 101}, {"new": 1, "huge": 1}, 1, records, list(hold), list(using), 164)


def place_of(value: str, state: ReferenceCounts) -> int:
    record = state.record(value)
    assert record is not None
    return record.offset


def test_a_free_record_is_taken_over() -> None:
    state = table()
    step = state.run(OpUse("op", (), ("new",)))
    assert (place_of("new", state), step.rejected) == (64, {})
    assert step.actions == ("allocate new at 64 (from old)",)


def test_clause_1_a_value_in_hold_edges_is_not_taken_over() -> None:
    state = table(hold=("old",))
    step = state.run(OpUse("op", (), ("new",)))
    assert (place_of("new", state), step.rejected) == (164, {"old": ("not held",)})


def test_clause_2_an_address_in_use_is_not_taken_over() -> None:
    state = table(using=(64,))
    step = state.run(OpUse("op", (), ("new",)))
    assert (place_of("new", state), step.rejected) == (164, {"old": ("address free",)})


def test_clause_3_a_value_with_readers_to_come_is_not_taken_over() -> None:
    state = table(ref_cnt=1)
    step = state.run(OpUse("op", (), ("new",)))
    assert (place_of("new", state), step.rejected) == (164, {"old": ("ended",)})


def test_clause_4_a_smaller_memory_is_not_taken_over() -> None:
    state = table()
    step = state.run(OpUse("op", (), ("huge",)))
    assert (place_of("huge", state), step.rejected) == (164, {"old": ("large enough",)})


@each(("shares", "offset"), [(False, 164), (True, 64)])
def test_clause_5_an_input_is_taken_over_by_reshape_only(shares: bool, offset: int) -> None:
    state = table(ref_cnt=1)
    step = state.run(OpUse("op", ("old",), ("new",), shares))
    assert place_of("new", state) == offset
    assert step.rejected == ({} if shares else {"old": ("not an input",)})


def test_clause_6_memory_is_taken_over_or_else_opened_behind_everything() -> None:
    state = table()
    step = state.run(OpUse("op", (), ("new", "huge")))
    assert step.actions == ("allocate new at 64 (from old)", "allocate huge at 164 (new)")
    assert state.top == 265
    assert (state.hold_edges, state.in_using_addr) == (["new", "huge"], [64, 164])


def test_clause_7_an_input_is_released_when_its_last_reader_has_run() -> None:
    state = table(hold=("old",), using=(64,), ref_cnt=2)
    first = state.run(OpUse("first", ("old",), ()))
    assert (first.hold_edges, first.in_using_addr) == (("old",), (64,))
    last = state.run(OpUse("last", ("old",), ()))
    assert (last.hold_edges, last.in_using_addr) == ((), ())
    assert last.actions == ("read old (ref_cnt 0)", "release old")


def test_the_worked_example() -> None:
    # V0 is read by Op2 and Op4. Op4's own output must not take its memory, Op5's output V1 may.
    ops = (
        OpUse("Op1", ("in",), ("V0",)),
        OpUse("Op2", ("V0",), ("t2",)),
        OpUse("Op3", ("t2",), ("t3",)),
        OpUse("Op4", ("V0", "t3"), ("t4",)),
        OpUse("Op5", ("t4",), ("V1",)),
    )
    sizes = dict.fromkeys(("V0", "t2", "t3", "t4", "V1"), 10)
    state = ReferenceCounts.of(ops, sizes, keep=("V1",))
    steps = [state.run(op) for op in ops]
    assert [place_of(value, state) for value in sizes] == [0, 10, 20, 10, 0]
    assert steps[3].text() == (
        "Op4: read V0 (ref_cnt 0); read t3 (ref_cnt 0); allocate t4 at 10 (from t2); release V0; release t3\n"
        "  rejected V0: fails not held, address free, not an input\n"
        "  rec_tbl (V0, 0, 10, 0) (t2, 10, 10, 0) (t3, 20, 10, 0) (t4, 10, 10, 1)\n"
        "  hold_edges t4\n"
        "  in_using_addr 10"
    )
    assert steps[4].text() == (
        "Op5: read t4 (ref_cnt 0); allocate V1 at 0 (from V0); release t4\n"
        "  rec_tbl (V0, 0, 10, 0) (t2, 10, 10, 0) (t3, 20, 10, 0) (t4, 10, 10, 0) (V1, 0, 10, 1)\n"
        "  hold_edges V1\n"
        "  in_using_addr 0"
    )


def test_an_output_of_the_network_is_kept() -> None:
    ops = (OpUse("a", (), ("x",)), OpUse("b", ("x",), ("y",)), OpUse("c", ("y",), ("z",)))
    sizes = dict.fromkeys("xyz", 8)
    kept = ReferenceCounts.of(ops, sizes, keep=("x",), alignment=16)
    free = ReferenceCounts.of(ops, sizes, alignment=16)
    for op in ops:
        kept.run(op)
        free.run(op)
    assert [place_of(value, kept) for value in sizes] == [0, 16, 32]
    assert [place_of(value, free) for value in sizes] == [0, 16, 0]


def test_an_output_without_a_size_is_refused() -> None:
    with pytest.raises(InvalidModel, match="value 'x' has no size; give one for every output of an op"):
        ReferenceCounts({}, {}).run(OpUse("a", (), ("x",)))
