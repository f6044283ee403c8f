"""Reference counting: values reuse the memory of dead ones, op by op in program order.

The state is `rec_tbl` (value, offset, size, and ref_cnt of every value so far), `hold_edges` (values in use), and
`in_using_addr` (their offsets). A record can be reused if it meets five conditions; two actions follow.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from tpuc.api import InvalidModel

from tpuc_plan.planners.alignment import align
from tpuc_plan.planners.base import Packed, PackingPlanner
from tpuc_plan.planners.packing import Packing

CONDITIONS = ("not held", "address free", "ended", "large enough", "not an input")
"""Conditions for the reuse of a record, in the order in which they are checked and named in the trace."""


@dataclass(frozen=True)
class OpUse:
    """An op as this planner sees it. `shares`: its result may take over the memory of its input (Reshape)."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    shares: bool = False


@dataclass
class Record:
    """A row of `rec_tbl`; `ref_cnt` is the number of ops that have yet to read the value."""

    value: str
    offset: int
    size: int
    ref_cnt: int


@dataclass(frozen=True)
class Trace:
    """The trace of one op: its actions, the rejected records with the conditions they miss, and the state
    afterwards.
    """

    op: str
    actions: tuple[str, ...]
    rejected: Mapping[str, tuple[str, ...]]
    rec_tbl: tuple[tuple[str, int, int, int], ...]
    hold_edges: tuple[str, ...]
    in_using_addr: tuple[int, ...]

    def text(self) -> str:
        """Format the trace in a few lines."""
        rows = " ".join(f"({', '.join(map(str, row))})" for row in self.rec_tbl)
        missed = "; ".join(f"{value}: fails {', '.join(names)}" for value, names in self.rejected.items())
        return "\n".join(
            [
                f"{self.op}: {'; '.join(self.actions) or 'nothing to do'}",
                *([f"  rejected {missed}"] if missed else []),
                f"  rec_tbl {rows}",
                f"  hold_edges {' '.join(self.hold_edges)}",
                f"  in_using_addr {' '.join(map(str, self.in_using_addr))}",
            ]
        )


@dataclass
class ReferenceCounts:
    """The algorithm itself. The memory of network outputs, given as `keep`, is never reused."""

    sizes: Mapping[str, int]
    uses: Mapping[str, int]
    alignment: int = 1
    rec_tbl: list[Record] = field(default_factory=list[Record])
    hold_edges: list[str] = field(default_factory=list[str])
    in_using_addr: list[int] = field(default_factory=list[int])
    top: int = 0

    @classmethod
    def of(
        cls, ops: Sequence[OpUse], sizes: Mapping[str, int], keep: Collection[str] = (), alignment: int = 1
    ) -> ReferenceCounts:
        """Count how many ops read each value; a kept value gets an additional reader that never comes."""
        uses = {value: sum(value in op.inputs for op in ops) + (value in keep) for value in sizes}
        return cls(sizes, uses, alignment)

    def record(self, value: str) -> Record | None:
        """Return the row of a value, None if it has none."""
        return next((record for record in self.rec_tbl if record.value == value), None)

    def missed(self, record: Record, size: int, inputs: Collection[int]) -> tuple[str, ...]:
        """Return the conditions that a record does not meet for a value of `size` bytes; offsets in `inputs` are
        excluded.
        """
        met = (
            record.value not in self.hold_edges,
            record.offset not in self.in_using_addr,
            record.ref_cnt == 0,
            record.size >= size,
            record.offset not in inputs,
        )
        return tuple(name for name, holds in zip(CONDITIONS, met, strict=True) if not holds)

    def run(self, op: OpUse) -> Trace:
        """Decrement the counts of the inputs, allocate the outputs, and release values that nobody reads any more."""
        actions: list[str] = []
        rejected: dict[str, tuple[str, ...]] = {}
        read = [record for value in op.inputs if (record := self.record(value)) is not None]
        for record in read:
            if record.ref_cnt >= 1:
                record.ref_cnt -= 1
                actions.append(f"read {record.value} (ref_cnt {record.ref_cnt})")
        if op.shares:  # its inputs may be taken over, so they are let go before and not after
            self._release(read, actions)
        inputs = () if op.shares else tuple(record.offset for record in read)
        for value in op.outputs:
            self._allocate(value, inputs, actions, rejected)
        self._release(read, actions)
        return Trace(
            op.name,
            tuple(actions),
            rejected,
            tuple((record.value, record.offset, record.size, record.ref_cnt) for record in self.rec_tbl),
            tuple(self.hold_edges),
            tuple(self.in_using_addr),
        )

    def _allocate(
        self, value: str, inputs: Collection[int], actions: list[str], rejected: dict[str, tuple[str, ...]]
    ) -> None:
        if value not in self.sizes:
            raise InvalidModel(f"value '{value}' has no size; give one for every output of an op")
        size = self.sizes[value]
        taken: Record | None = None
        for record in self.rec_tbl:
            missed = self.missed(record, size, inputs)
            if not missed:
                taken = record
                break
            rejected[record.value] = missed
        if taken is None:
            offset = align(self.top, self.alignment)
            self.top = offset + size
            actions.append(f"allocate {value} at {offset} (new)")
        else:
            offset = taken.offset
            actions.append(f"allocate {value} at {offset} (from {taken.value})")
        self.rec_tbl.append(Record(value, offset, size, self.uses[value]))
        self.hold_edges.append(value)
        self.in_using_addr.append(offset)

    def _release(self, read: Sequence[Record], actions: list[str]) -> None:
        for record in read:
            if record.value in self.hold_edges and record.ref_cnt == 0:
                self.hold_edges.remove(record.value)
                self.in_using_addr.remove(record.offset)
                actions.append(f"release {record.value}")


@dataclass(frozen=True)
class ReferenceCount(PackingPlanner):
    """Reference counting over buffers in program order; a buffer that conflicts with a later one is in use there.

    Simple and traceable, but seldom the smallest plan: it never places two buffers into the memory of one.
    """

    name = "reference-count"

    def pack(self, packing: Packing, limit: int | None) -> Packed:
        """See PackingPlanner."""
        return Packed(_scheme(packing))


def _scheme(packing: Packing) -> list[int]:
    # The conditions see the world through what is in use, so the state is set from the conflicts before each buffer.
    alignment = max(packing.alignments, default=1)
    names = [str(member) for member in range(len(packing))]
    table = ReferenceCounts(dict(zip(names, packing.sizes, strict=True)), dict.fromkeys(names, 0), alignment)
    for member, name in enumerate(names):
        live = [table.rec_tbl[other] for other in packing.conflicts[member] if other < member]
        table.hold_edges = [record.value for record in live]
        table.in_using_addr = [record.offset for record in live]
        table.run(OpUse(name, (), (name,)))
    return [record.offset for record in table.rec_tbl]


REFERENCE_COUNT = ReferenceCount()
