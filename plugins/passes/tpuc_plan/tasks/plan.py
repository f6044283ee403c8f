"""The plan of a module as a value, and its form as attributes of ops.

Planning makes and compares plans without changing the module. The chosen plan is written once; the passes after
`group-layers` read it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias

from tpuc.api import ArrayAttr, Attribute, DictAttr, IntegerAttr, InvalidModel, Module, Operation, StringAttr, UnitAttr

_CYCLES, _ORDER = "module.planned_cycles", "module.order_profiles"
_FORMER = {
    "kept": "resident_in",
    "fetched": "preloaded",
    "held": "resident_out",
    "stored": "written_back",
    "sliced": "stripes",
    "merged": "concat_alias",
    "assembled": "lmem_concat",
    "inside": "slice_view",
}
"""Attribute names of version 0.1, which are still read, and their present names."""
_NAMES = frozenset(("tiling", "view", "alias", "local", "cores", *_FORMER, *_FORMER.values()))


@dataclass(frozen=True)
class Residency:
    """The operands and results of an operation in local memory, by index.

    `resident_in`: operands left there by an earlier operation. `preloaded`: operands loaded whole that stay for later
    operations. Tiles load their parts of all other operands from DDR. `resident_out`: results that stay.
    `written_back`: results that are written to DDR.
    """

    resident_in: frozenset[int] = frozenset()
    preloaded: frozenset[int] = frozenset()
    resident_out: frozenset[int] = frozenset()
    written_back: frozenset[int] = frozenset()

    @staticmethod
    def streamed(results: int) -> Residency:
        """The residency of an operation with `results` results whose tiles stream from DDR to DDR."""
        return Residency(written_back=frozenset(range(results)))


@dataclass(frozen=True)
class Stripes:
    """How values pass through a cascade: number of the cascade, batches per stripe, number of parts into which rows are
    cut, and whether the operation's constants stay resident between stripes.
    """

    cascade: int
    batches: int
    parts: int
    resident: bool = True


@dataclass(frozen=True)
class TilePlan:
    """A tiled operation: tile sizes by axis, the kernel's view of the tensors, residency, stripes, and how many cores
    compute its tiles, or the stripes of its cascade, apart.
    """

    tiling: tuple[tuple[str, int], ...]
    view: int
    residency: Residency
    stripes: Stripes | None = None
    cores: int = 1


@dataclass(frozen=True)
class Alias:
    """The result has the bytes of the first operand."""


@dataclass(frozen=True)
class ConcatAlias:
    """The operands lie in the result, at these byte offsets. `in_lmem`: they are concatenated in local memory."""

    offsets: tuple[int, ...]
    in_lmem: bool = False


@dataclass(frozen=True)
class SliceView:
    """The result lies in the operand, at this byte offset."""

    offset: int


OpPlan: TypeAlias = TilePlan | Alias | ConcatAlias | SliceView | None
"""None: moves in DDR, a host function, or nothing to do."""


@dataclass(frozen=True)
class Plan:
    """The plan of each operation of a function, in program order.

    `cycles`: the estimated cost, None if unknown. `order_profiles`: timing profiles that order the program; empty for
    the chip's first one.
    """

    ops: tuple[OpPlan, ...]
    cycles: int | None = None
    order_profiles: tuple[str, ...] = ()

    @staticmethod
    def of(module: Module) -> Plan:
        """Read the plan from the attributes of a module."""
        cycles, names = module.attributes.get(_CYCLES), module.attributes.get(_ORDER)
        profiles = names.items if isinstance(names, ArrayAttr) else ()
        return Plan(
            tuple(_read(operation) for operation in module.main.operations),
            cycles.value if isinstance(cycles, IntegerAttr) else None,
            tuple(name.value for name in profiles if isinstance(name, StringAttr)),
        )

    def write(self, module: Module) -> None:
        """Write the plan as attributes of a module, replacing any other plan."""
        for operation, plan in zip(module.main.operations, self.ops, strict=True):
            for name in _NAMES & operation.extra_attributes.keys():
                del operation.extra_attributes[name]
            operation.extra_attributes |= _attributes(plan, len(operation.results))
        for name in (_CYCLES, _ORDER):
            module.attributes.pop(name, None)
        if self.cycles is not None:
            module.attributes[_CYCLES] = IntegerAttr(self.cycles)
        if self.order_profiles:
            module.attributes[_ORDER] = ArrayAttr(tuple(StringAttr(name) for name in self.order_profiles))


def _attributes(plan: OpPlan, results: int) -> dict[str, Attribute]:
    """Return the attributes that state the plan of an operation."""
    match plan:
        case None:
            return {}
        case Alias():
            return {"alias": UnitAttr()}
        case SliceView(offset=offset):
            return {"slice_view": IntegerAttr(offset)}
        case ConcatAlias(offsets=offsets, in_lmem=in_lmem):
            mark: dict[str, Attribute] = {"lmem_concat": UnitAttr()} if in_lmem else {}
            return {"concat_alias": _integers(offsets), **mark}
        case TilePlan():
            found: dict[str, Attribute] = {"tiling": _numbers(plan.tiling)}
            if plan.view:
                found["view"] = IntegerAttr(plan.view)
            if plan.residency != Residency.streamed(results):
                indices: dict[str, frozenset[int]] = vars(plan.residency)
                found |= {name: _integers(sorted(of)) for name, of in indices.items() if of or name == "written_back"}
            if plan.stripes is not None:
                found["stripes"] = _numbers(sorted(vars(plan.stripes).items()))
            if plan.cores > 1:
                found["cores"] = IntegerAttr(plan.cores)
            return found


def _read(operation: Operation) -> OpPlan:
    given = {_FORMER.get(name, name): attribute for name, attribute in operation.extra_attributes.items()}
    tiling, view, stripes, cores = (given.get(name) for name in ("tiling", "view", "stripes", "cores"))
    match given:
        case {"alias": _}:
            return Alias()
        case {"slice_view": IntegerAttr(value=offset)}:
            return SliceView(offset)
        case {"concat_alias": ArrayAttr() as offsets}:
            return ConcatAlias(_tuple(offsets), "lmem_concat" in given)
        case _ if not isinstance(tiling, DictAttr):
            return None
        case _:
            streamed: dict[str, frozenset[int]] = vars(Residency.streamed(len(operation.results)))
            sides = {name: frozenset(_tuple(given[name])) if name in given else streamed[name] for name in streamed}
            return TilePlan(
                tuple(_dict(tiling).items()),
                view.value if isinstance(view, IntegerAttr) else 0,
                Residency(**sides),
                _stripes(operation, _dict(stripes)) if isinstance(stripes, DictAttr) else None,
                cores.value if isinstance(cores, IntegerAttr) else 1,
            )


def _stripes(operation: Operation, numbers: Mapping[str, int]) -> Stripes:
    missing = [field.name for field in fields(Stripes) if field.name not in numbers]
    if missing:
        raise InvalidModel(
            f"op '{operation.name}' ({operation.op.name}): its stripes lack {', '.join(missing)}. Plan the module "
            "again with the pass group-layers."
        )
    return Stripes(numbers["cascade"], numbers["batches"], numbers["parts"], bool(numbers["resident"]))


def _integers(values: Iterable[int]) -> ArrayAttr:
    return ArrayAttr(tuple(IntegerAttr(value) for value in values))


def _numbers(items: Iterable[tuple[str, int]]) -> DictAttr:
    return DictAttr(tuple((name, IntegerAttr(int(value))) for name, value in items))


def _tuple(attribute: Attribute) -> tuple[int, ...]:
    items = attribute.items if isinstance(attribute, ArrayAttr) else ()
    return tuple(item.value for item in items if isinstance(item, IntegerAttr))


def _dict(attribute: DictAttr) -> dict[str, int]:
    """Return named numbers; version 0.1 calls the cascade number `run`."""
    items = ((name, item.value) for name, item in attribute.items if isinstance(item, IntegerAttr))
    return {"cascade" if name == "run" else name: value for name, value in items}
