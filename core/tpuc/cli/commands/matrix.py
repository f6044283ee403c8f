"""`tpuc matrix`: which ops a chip can compute in which modes, and who taught it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from tpuc.cli.app import App, pass_app
from tpuc.cli.command import Command
from tpuc.cli.text import columns
from tpuc.errors import PluginConflict

if TYPE_CHECKING:
    from tpuc.registry import Registry

LOWERINGS, KERNELS = "tpuc.lowerings", "tpuc.kernels"
CONFLICT, DEFAULT = "conflict", "default"


@click.command("matrix", cls=Command)
@click.option("--chip", required=True, help="The chip (`tpuc plugins` lists them).")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@pass_app
def command(app: App, chip: str, as_json: bool) -> None:
    """Show which ops a chip supports, per mode.

    A cell names the package that fills it; `default` is the op's own decomposition, `-` means not supported.
    """
    description = app.registry.get("tpuc.chips", chip).description
    owners = (chip, *description.families)
    modes: Sequence[str] = description.modes
    lowerings: dict[str, Mapping[str, str | None]] = {}
    for dialect in dialects(app.registry, LOWERINGS, owners):
        lowerings |= lowering_rows(app.registry, owners, dialect, modes)
    kernels: dict[str, str] = {}
    for dialect in dialects(app.registry, KERNELS, owners):
        kernels |= kernel_rows(app.registry, owners, dialect)
    if as_json:
        app.result_json({"chip": chip, "modes": list(modes), "lowerings": lowerings, "kernels": kernels})
        return
    shown = [(op, *(row[mode] or "-" for mode in modes)) for op, row in lowerings.items()]
    app.result(columns([("op", *modes), *shown]))
    app.result("")
    app.result(columns([("instruction op", "kernel"), *kernels.items()]))


def dialects(registry: Registry, group: str, owners: Sequence[str]) -> list[str]:
    """Dialects for which any of the owners has tables, sorted."""
    return sorted({dialect for owner in owners for dialect in registry.table_dialects(group, owner)})


def lowering_rows(
    registry: Registry, owners: Sequence[str], dialect: str, modes: Sequence[str]
) -> Mapping[str, Mapping[str, str | None]]:
    """Per op and mode who fills the cell, `conflict` where several do, `default`, or None where nobody does.

    Ops of a dialect that the chip has kernels for need no lowering; they are listed where they have one all the same.
    """
    keys = [key for owner in owners for key in registry.merged(LOWERINGS, owner, dialect).filled()]
    definitions: Mapping[str, type[Any]] = {}
    if dialect not in dialects(registry, KERNELS, owners):
        definitions = computing_ops(registry, dialect)
    ops = {str(cast("tuple[str, str]", key)[0]) for key in keys if isinstance(key, tuple)} | set(definitions)
    rows: dict[str, Mapping[str, str | None]] = {}
    for op in sorted(ops):
        otherwise = DEFAULT if has_default(definitions.get(op)) else None
        rows[op] = {mode: provider(registry, LOWERINGS, owners, dialect, (op, mode)) or otherwise for mode in modes}
    return rows


def kernel_rows(registry: Registry, owners: Sequence[str], dialect: str) -> Mapping[str, str]:
    """Per op the package that has its kernel."""
    ops = sorted({str(key) for owner in owners for key in registry.merged(KERNELS, owner, dialect).filled()})
    return {op: provider(registry, KERNELS, owners, dialect, op) or "-" for op in ops}


def computing_ops(registry: Registry, dialect: str) -> Mapping[str, type[Any]]:
    """The ops of a dialect that compute something: no constants, inputs or absent operands."""
    from tpuc.ir.traits import Absent, Constant, NetworkInput

    if not registry.has("tpuc.dialects", dialect):
        return {}
    definition = registry.get("tpuc.dialects", dialect)
    ops = {f"{dialect}.{name}": definition.op(name) for name in definition.ops}
    return {name: op for name, op in ops.items() if not issubclass(op, (Constant, NetworkInput, Absent))}


def has_default(op: type[Any] | None) -> bool:
    """Does the op bring a decomposition of its own?"""
    from tpuc.ir import Op

    return op is not None and op.lower_default is not Op.lower_default


def provider(
    registry: Registry, group: str, owners: Sequence[str], dialect: str, key: str | tuple[str, str]
) -> str | None:
    """Who fills a cell; the owner is added where it is a family of the chip."""
    try:
        cell = registry.find_cell(group, owners, dialect, key)
    except PluginConflict:
        return CONFLICT
    if cell is None:
        return None
    return cell.package if cell.owner == owners[0] else f"{cell.package} ({cell.owner})"
