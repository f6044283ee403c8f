"""The plan of a module as a value, and its form as attributes of operations.

Planning makes and compares plans without a change of the module. The chosen one is written once; the passes behind
`group-layers` read it again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tpuc.api import ArrayAttr, Attribute, DictAttr, IntegerAttr, Module, Operation, StringAttr, UnitAttr

TILING, VIEW, STRIPES = "tiling", "view", "stripes"
RESIDENT_IN, PRELOADED, RESIDENT_OUT, WRITTEN_BACK = "resident_in", "preloaded", "resident_out", "written_back"
ALIAS, CONCAT_ALIAS, LMEM_CONCAT, SLICE_VIEW = "alias", "concat_alias", "lmem_concat", "slice_view"
CYCLES = "module.planned_cycles"
ORDER = "module.order_profiles"

_FORMER = {
    RESIDENT_IN: "kept",
    PRELOADED: "fetched",
    RESIDENT_OUT: "held",
    WRITTEN_BACK: "stored",
    STRIPES: "sliced",
    CONCAT_ALIAS: "merged",
    LMEM_CONCAT: "assembled",
    SLICE_VIEW: "inside",
}
"""Names that version 0.1 has for attributes, which are still read."""
_NAMES = (TILING, VIEW, ALIAS, *_FORMER, *_FORMER.values(), "local")


@dataclass(frozen=True)
class Residency:
    """What of an operation lies in local memory before and after it, by operand and result index.

    `resident_in`: operands that an earlier operation left there. `preloaded`: operands that are loaded whole and stay
    for later operations. Tiles load their parts of all other operands from DDR. `resident_out`: results that stay.
    `written_back`: results that go to DDR.
    """

    resident_in: frozenset[int] = frozenset()
    preloaded: frozenset[int] = frozenset()
    resident_out: frozenset[int] = frozenset()
    written_back: frozenset[int] = frozenset()

    @staticmethod
    def streamed(results: int) -> Residency:
        """Of an operation with so many results whose tiles stream from DDR to DDR."""
        return Residency(written_back=frozenset(range(results)))


@dataclass(frozen=True)
class Stripes:
    """How values pass through a cascade of operations: number of the cascade, batches of a stripe, parts that rows are
    cut into, and whether the operation's constants stay from stripe to stripe.
    """

    cascade: int
    batches: int
    parts: int
    resident_constants: bool = True


@dataclass(frozen=True)
class TilePlan:
    """An operation in tiles: their sizes by axis, the kernel's view of the tensors, what is resident, its stripes."""

    tiling: tuple[tuple[str, int], ...]
    view: int
    residency: Residency
    stripes: Stripes | None = None


@dataclass(frozen=True)
class Alias:
    """The result is the first operand's bytes."""


@dataclass(frozen=True)
class ConcatAlias:
    """The operands lie in the result, at these bytes. `in_lmem`: they are put together in local memory."""

    offsets: tuple[int, ...]
    in_lmem: bool = False


@dataclass(frozen=True)
class SliceView:
    """The result lies in the operand, at this byte."""

    offset: int


OpPlan: TypeAlias = TilePlan | Alias | ConcatAlias | SliceView | None
"""None: moves in DDR, a routine of the host, or nothing to do."""


@dataclass(frozen=True)
class Plan:
    """What is planned for each operation of a function, in program order.

    `cycles`: the estimated cost, None where it is unknown. `order_profiles`: timing profiles by which the program is
    ordered, none for the chip's first one.
    """

    ops: tuple[OpPlan, ...]
    cycles: int | None = None
    order_profiles: tuple[str, ...] = ()

    @staticmethod
    def of(module: Module) -> Plan:
        """As written on the operations of a module."""
        cycles, names = module.attributes.get(CYCLES), module.attributes.get(ORDER)
        return Plan(
            tuple(_read(operation) for operation in module.main.operations),
            cycles.value if isinstance(cycles, IntegerAttr) else None,
            tuple(name.value for name in names.items if isinstance(name, StringAttr))
            if isinstance(names, ArrayAttr)
            else (),
        )

    def write(self, module: Module) -> None:
        """Write it on the operations of a module, in place of any other plan."""
        for operation, plan in zip(module.main.operations, self.ops, strict=True):
            for name in _NAMES:
                operation.extra_attributes.pop(name, None)
            operation.extra_attributes |= _attributes(plan, len(operation.results))
        for name in (CYCLES, ORDER):
            module.attributes.pop(name, None)
        if self.cycles is not None:
            module.attributes[CYCLES] = IntegerAttr(self.cycles)
        if self.order_profiles:
            module.attributes[ORDER] = ArrayAttr(tuple(StringAttr(name) for name in self.order_profiles))


def _attributes(plan: OpPlan, results: int) -> dict[str, Attribute]:
    match plan:
        case None:
            return {}
        case Alias():
            return {ALIAS: UnitAttr()}
        case SliceView(offset=offset):
            return {SLICE_VIEW: IntegerAttr(offset)}
        case ConcatAlias(offsets=offsets, in_lmem=in_lmem):
            found: dict[str, Attribute] = {CONCAT_ALIAS: _integers(offsets)}
            if in_lmem:
                found[LMEM_CONCAT] = UnitAttr()
            return found
        case TilePlan(tiling=tiling, view=view, residency=residency, stripes=stripes):
            found = {TILING: _numbers(tiling)}
            if view:
                found[VIEW] = IntegerAttr(view)
            for name, indices in ((n, getattr(residency, n)) for n in (RESIDENT_IN, PRELOADED, RESIDENT_OUT)):
                if indices:
                    found[name] = _integers(sorted(indices))
            if residency != Residency.streamed(results):
                found[WRITTEN_BACK] = _integers(sorted(residency.written_back))
            if stripes is not None:
                found[STRIPES] = _numbers((name, int(value)) for name, value in sorted(vars(stripes).items()))
            return found


def _read(operation: Operation) -> OpPlan:
    attributes = operation.extra_attributes

    def get(name: str) -> Attribute | None:
        return attributes.get(name, attributes.get(_FORMER.get(name, name)))

    if ALIAS in attributes:
        return Alias()
    offset, offsets, tiling, view = (get(name) for name in (SLICE_VIEW, CONCAT_ALIAS, TILING, VIEW))
    if isinstance(offset, IntegerAttr):
        return SliceView(offset.value)
    if isinstance(offsets, ArrayAttr):
        return ConcatAlias(_tuple(offsets), get(LMEM_CONCAT) is not None)
    if not isinstance(tiling, DictAttr):
        return None
    resident_in, preloaded, resident_out = (frozenset(_tuple(get(n))) for n in (RESIDENT_IN, PRELOADED, RESIDENT_OUT))
    written = get(WRITTEN_BACK)
    back = Residency.streamed(len(operation.results)).written_back if written is None else frozenset(_tuple(written))
    stripes = get(STRIPES)
    return TilePlan(
        tuple(_dict(tiling).items()),
        view.value if isinstance(view, IntegerAttr) else 0,
        Residency(resident_in, preloaded, resident_out, back),
        _stripes(_dict(stripes)) if isinstance(stripes, DictAttr) else None,
    )


def _stripes(numbers: dict[str, int]) -> Stripes:
    cascade = numbers["cascade"] if "cascade" in numbers else numbers["run"]
    resident = numbers["resident_constants"] if "resident_constants" in numbers else numbers["resident"]
    return Stripes(cascade, numbers["batches"], numbers["parts"], bool(resident))


def _integers(values: Iterable[int]) -> ArrayAttr:
    return ArrayAttr(tuple(IntegerAttr(value) for value in values))


def _numbers(items: Iterable[tuple[str, int]]) -> DictAttr:
    return DictAttr(tuple((name, IntegerAttr(value)) for name, value in items))


def _tuple(attribute: Attribute | None) -> tuple[int, ...]:
    items = attribute.items if isinstance(attribute, ArrayAttr) else ()
    return tuple(item.value for item in items if isinstance(item, IntegerAttr))


def _dict(attribute: DictAttr) -> dict[str, int]:
    return {name: item.value for name, item in attribute.items if isinstance(item, IntegerAttr)}
