"""Lookup of the runtime functions that compute ops on the host processor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tpuc.api.chip import ChipDescription
from tpuc.api.cpu import ALL_OPS, CPU_FUNCTIONS, CpuFunction
from tpuc.errors import PluginError, UsageError
from tpuc.registry.registry import Registry

_TOP = "top."


def cpu_function(registry: Registry, owners: Sequence[str], op: str) -> CpuFunction[Any] | None:
    """The function for a TOP op of the first of `owners`, a chip and its families, that has one."""
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
    """Raise UsageError for an op without a function in the chip's runtime."""
    names = (name.partition(".") for name in registry.names(CPU_FUNCTIONS))
    known = sorted({op for owner, _, op in names if owner in chip.owners})
    for op in ops:
        if op not in (ALL_OPS, *known):
            way_out = f"Give 'all', or of these: {', '.join(known)}" if known else "Leave the option out"
            raise UsageError(f"--cpu-ops {op}: the runtime of {chip.name} has no function for this op. {way_out}.")
