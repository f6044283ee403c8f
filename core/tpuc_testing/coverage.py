"""Which cells of a chip's support table no test case stands behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING

from tpuc.ir import Op
from tpuc.ir.op import op_fields
from tpuc.registry import Registry
from tpuc_driver.cli.commands.matrix import lowering_rows


def uncovered(chip: str, cases: Mapping[str, Iterable[Op]], registry: Registry, dialect: str = "top") -> list[str]:
    """What the support table claims and no case shows, one sentence each, sorted.

    `cases`: by mode, the ops of `dialect` that are compiled for `chip`, run and compared. An op with attributes that
    have usual values needs a case in which one of them has another, or two cases that differ.
    """
    description = registry.get("tpuc.chips", chip).description
    rows = lowering_rows(registry, description, dialect)
    missing: list[str] = []
    for mode, ops in cases.items():
        shown: dict[str, list[Op]] = {}
        for op in ops:
            shown.setdefault(op.name, []).append(op)
        for name, row in rows.items():
            if row[mode] is None:
                continue
            if name not in shown:
                missing.append(f"{name} {mode}: no case")
            elif _are_usual(shown[name]):
                missing.append(f"{name} {mode}: no case with an attribute other than the usual one")
    return sorted(missing)


def _are_usual(ops: Sequence[Op]) -> bool:
    """Have some attributes usual values, and do all cases leave them alone and agree in the others?"""
    fields = [field for field in op_fields(type(ops[0])) if not field.of_integers]
    optional = [field for field in fields if field.default is not MISSING]
    if any(getattr(op, field.name) != field.default for op in ops for field in optional):
        return False
    return bool(optional) and len(set(ops)) == 1
