"""Ops that a chip leaves to the processor: functions of its runtime that compute them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tpuc.api.kernel import CpuRoutine, HostArgument, OpT
from tpuc.errors import PluginError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tpuc.api.chip import ChipDescription
    from tpuc.registry import Registry

CPU_FUNCTIONS = "tpuc.cpu_functions"
ALL_OPS = "all"
"""Stands for every op that the runtime has a function for."""
_TOP = "top."


class CpuFunction(CpuRoutine[OpT], ABC):
    """A function of a runtime that computes an op of TOP on float32 numbers.

    `tpuc.cpu_functions` names it by a chip, or a family of chips, and the op: `cv18.TopK`. Networks get it where the
    chip does not compute the op and `--cpu-ops` names it.
    """

    api_version: ClassVar[int] = 1
    results: ClassVar[int] = 1
    """How many of the op's results it gives, from the first on; networks that use others do not get it."""

    @abstractmethod
    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[Any]]:
        """What the runtime computes of inputs in the extents that the file states: float32 numbers, or integers where
        it gives these; raises ValueError for arguments that mean nothing.
        """


def cpu_function(registry: Registry, owners: Sequence[str], op: str) -> CpuFunction[Any] | None:
    """The function that computes an op of TOP for the first of `owners`, a chip and its families, that has one."""
    if not op.startswith(_TOP):
        return None
    names = (f"{owner}.{op.removeprefix(_TOP)}" for owner in owners)
    found = next((name for name in names if registry.has(CPU_FUNCTIONS, name)), None)
    return None if found is None else registry.get(CPU_FUNCTIONS, found)


def cpu_functions(registry: Registry, owners: Sequence[str]) -> Iterator[CpuFunction[Any]]:
    """All functions of a chip and its families."""
    for name in registry.names(CPU_FUNCTIONS):
        if name.partition(".")[0] in owners:
            try:
                yield registry.get(CPU_FUNCTIONS, name)
            except PluginError as error:
                registry.leave_out(error)


def check_cpu_ops(registry: Registry, chip: ChipDescription, ops: Sequence[str]) -> None:
    """Raise UsageError for an op that the chip's runtime has no function for."""
    names = (name.partition(".") for name in registry.names(CPU_FUNCTIONS))
    known = sorted({op for owner, _, op in names if owner in chip.owners})
    for op in ops:
        if op not in (ALL_OPS, *known):
            way_out = f"Give 'all', or of these: {', '.join(known)}" if known else "Leave the option out"
            raise UsageError(f"--cpu-ops {op}: the runtime of {chip.name} has no function for this op. {way_out}.")
