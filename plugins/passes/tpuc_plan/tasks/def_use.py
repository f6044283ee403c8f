"""Compute defs and uses of values in the tasks of a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tpuc.api import Value

from tpuc_plan.tasks.aliases import AliasSets
from tpuc_plan.tasks.task import Task

Use: TypeAlias = "tuple[int, int]"
"""Point (index of a task) and operand or result index."""


@dataclass
class DefUse:
    """The definition of a value, None if outside the region, and its uses."""

    definition: Use | None = None
    uses: list[Use] = field(default_factory=list["Use"])


def def_uses(tasks: Sequence[Task], aliases: AliasSets) -> dict[Value, DefUse]:
    """Return defs and uses of all alias roots, in the order of first appearance."""
    found: dict[Value, DefUse] = {}
    for point, task in enumerate(tasks):
        for index, operand in enumerate(task.operation.operands):
            found.setdefault(aliases.root(operand), DefUse()).uses.append((point, index))
        for index, value in enumerate(task.operation.results):
            found.setdefault(value, DefUse()).definition = (point, index)
    return found
