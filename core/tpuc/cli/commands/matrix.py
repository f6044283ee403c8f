"""`tpuc matrix`: which ops a chip can compute in which modes, and who taught it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

import click

from tpuc.cli.app import App, pass_app
from tpuc.cli.command import Command
from tpuc.cli.text import columns
from tpuc.errors import PluginConflict

if TYPE_CHECKING:
    from tpuc.registry import Registry

LOWERINGS, KERNELS = "tpuc.lowerings", "tpuc.kernels"


@click.command("matrix", cls=Command)
@click.option("--chip", required=True, help="The chip (`tpuc plugins` lists them).")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@pass_app
def command(app: App, chip: str, as_json: bool) -> None:
    """Show which ops a chip supports, per mode."""
    description = app.registry.get("tpuc.chips", chip).description
    owners = (chip, *description.families)
    modes: Sequence[str] = description.modes
    lowerings = {
        op: row
        for dialect in dialects(app.registry, LOWERINGS, owners)
        for op, row in lowering_rows(app.registry, owners, dialect, modes).items()
    }
    kernels = {
        op: package
        for dialect in dialects(app.registry, KERNELS, owners)
        for op, package in kernel_rows(app.registry, owners, dialect).items()
    }
    if as_json:
        app.result_json({"chip": chip, "modes": list(modes), "lowerings": lowerings, "kernels": kernels})
        return
    app.result(
        columns([("op", *modes), *((op, *(row[mode] or "-" for mode in modes)) for op, row in lowerings.items())])
    )
    app.result("")
    app.result(columns([("instruction op", "kernel"), *kernels.items()]))


def dialects(registry: Registry, group: str, owners: Sequence[str]) -> list[str]:
    """Dialects for which any of the owners has tables, sorted."""
    return sorted({dialect for owner in owners for dialect in registry.table_dialects(group, owner)})


def lowering_rows(
    registry: Registry, owners: Sequence[str], dialect: str, modes: Sequence[str]
) -> Mapping[str, Mapping[str, str | None]]:
    """Per op and mode the package that fills the cell, `conflict` where several do, None where nobody does."""
    keys = [key for owner in owners for key in registry.merged(LOWERINGS, owner, dialect).keys]
    ops = sorted({str(cast("tuple[str, str]", key)[0]) for key in keys if isinstance(key, tuple)})
    return {op: {mode: provider(registry, LOWERINGS, owners, dialect, (op, mode)) for mode in modes} for op in ops}


def kernel_rows(registry: Registry, owners: Sequence[str], dialect: str) -> Mapping[str, str]:
    """Per op the package that has its kernel."""
    keys = [key for owner in owners for key in registry.merged(KERNELS, owner, dialect).keys]
    ops = sorted({str(key) for key in keys})
    return {op: provider(registry, KERNELS, owners, dialect, op) or "-" for op in ops}


def provider(
    registry: Registry, group: str, owners: Sequence[str], dialect: str, key: str | tuple[str, str]
) -> str | None:
    """Who fills a cell; the owner is added where it is a family of the chip."""
    try:
        cell = registry.find_cell(group, owners, dialect, key)
    except PluginConflict:
        return "conflict"
    if cell is None:
        return None
    return cell.package if cell.owner == owners[0] else f"{cell.package} ({cell.owner})"
