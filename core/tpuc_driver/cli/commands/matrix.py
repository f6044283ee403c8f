"""`tpuc matrix`: show which ops a chip computes in which modes, and which package provides them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click
from tpuc.errors import PluginConflict

from tpuc_driver.cli.app import App, pass_app
from tpuc_driver.cli.command import Command
from tpuc_driver.support import read_forms

if TYPE_CHECKING:
    from tpuc.api import ChipDescription
    from tpuc.registry import Cell, Registry

LOWERINGS, KERNELS = "tpuc.lowerings", "tpuc.kernels"
CONFLICT, COMPOSED = "conflict", "composed"


@click.command(
    "matrix",
    cls=Command,
    section="Installation",
    examples=("tpuc matrix --chip {chip}",),
)
@click.option("--chip", required=True, help="The chip (`tpuc plugins` lists them).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@pass_app
def command(app: App, chip: str, as_json: bool) -> None:
    """Show which ops a chip supports in which mode.

    Each cell names the package that supports the op. `composed` marks ops that become several others the chip computes,
    `part` ops with refused forms (--json lists them), `-` unsupported ops.
    """
    description = app.registry.get("tpuc.chips", chip).description
    owners: Sequence[str] = description.owners
    modes: Sequence[str] = description.modes
    lowerings: dict[str, Mapping[str, str | None]] = {}
    for dialect in dialects(app.registry, LOWERINGS, description.lowering_owners):
        lowerings |= lowering_rows(app.registry, description, dialect)
    kernels: dict[str, str] = {}
    for dialect in dialects(app.registry, KERNELS, owners):
        kernels |= kernel_rows(app.registry, owners, dialect)
    if as_json:
        refused = refused_forms(description, lowerings)
        rows = {"lowerings": lowerings, "kernels": kernels, "refused": refused}
        app.result_json({"chip": chip, "modes": list(modes), **rows})
        return
    shown = [(op, *(shown_cell(description, op, mode, row[mode]) for mode in modes)) for op, row in lowerings.items()]
    app.table([("op", *modes), *shown])
    app.result("")
    app.table([("instruction op", "kernel"), *kernels.items()])


def dialects(registry: Registry, group: str, owners: Sequence[str]) -> list[str]:
    """Dialects for which any of the owners has tables, sorted; unloadable ones are skipped."""
    found = sorted({dialect for owner in owners for dialect in registry.table_dialects(group, owner)})
    return [dialect for dialect in found if _is_usable(registry, group, owners, dialect)]


def _is_usable(registry: Registry, group: str, owners: Sequence[str], dialect: str) -> bool:
    """True if the tables and the dialect can be loaded; otherwise a remark says why not."""
    from tpuc.errors import PluginError

    try:
        for owner in owners:
            registry.merged(group, owner, dialect)
        if registry.has("tpuc.dialects", dialect):
            registry.get("tpuc.dialects", dialect)
    except PluginError as error:
        registry.leave_out(error)
        return False
    return True


def shown_cell(chip: ChipDescription, op: str, mode: str, cell: str | None) -> str:
    """A cell as text: followed by `part` where some forms of the op do not compile."""
    if cell is None:
        return "-"
    return f"{cell}, part" if read_forms(chip.support).refusals(op, mode) else cell


def refused_forms(
    chip: ChipDescription, rows: Mapping[str, Mapping[str, str | None]]
) -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The forms that do not compile, with the reason, by op and mode of defined cells."""
    known = read_forms(chip.support)
    found = {op: {mode: known.refusals(op, mode) for mode, cell in row.items() if cell} for op, row in rows.items()}
    by_op = {op: {mode: forms for mode, forms in by_mode.items() if forms} for op, by_mode in found.items()}
    return {op: by_mode for op, by_mode in by_op.items() if by_mode}


def lowering_rows(registry: Registry, chip: ChipDescription, dialect: str) -> Mapping[str, Mapping[str, str | None]]:
    """Like `table_rows`, without cells of which no form compiled when the chip's package was built."""
    known, package = read_forms(chip.support), registry.offer("tpuc.chips", chip.name).package
    return {
        op: {
            mode: None if _package(cell) in (package, COMPOSED) and known.never_compiles(op, mode) else cell
            for mode, cell in row.items()
        }
        for op, row in table_rows(registry, chip, dialect).items()
    }


def table_rows(registry: Registry, chip: ChipDescription, dialect: str) -> Mapping[str, Mapping[str, str | None]]:
    """The package that defines the cell of each op and mode of a chip, `conflict` where several do, `composed`, or
    None.

    Ops of a dialect for which the chip has kernels need no lowering; they are listed if they have one.
    """
    owners, modes = chip.lowering_owners, chip.modes
    keys = [key for owner in owners for key in registry.merged(LOWERINGS, owner, dialect).filled()]
    definitions: Mapping[str, type[Any]] = {}
    if dialect not in dialects(registry, KERNELS, chip.owners):
        definitions = computing_ops(registry, dialect)
    ops = {str(cast("tuple[str, str]", key)[0]) for key in keys if isinstance(key, tuple)} | set(definitions)
    ops -= {definition.op_kind for definition in definitions.values()}
    rows: dict[str, Mapping[str, str | None]] = {}
    for op in sorted(ops):
        known = definitions.get(op)
        otherwise = COMPOSED if known is not None and is_composed(registry, chip, known) else None
        cells = {mode: partial(lowering_cell, registry, chip, op, known, mode) for mode in modes}
        rows[op] = {mode: provider(cell, owners) or otherwise for mode, cell in cells.items()}
    return rows


def lowering_cell(
    registry: Registry, chip: ChipDescription, name: str, definition: type[Any] | None, mode: str
) -> Cell | None:
    """The cell of an op in a mode; the cell of its kind requires the op's definition."""
    if definition is not None:
        return registry.lowering(chip, definition, mode)
    return registry.find_cell(LOWERINGS, chip.lowering_owners, name.partition(".")[0], (name, mode))


def is_composed(registry: Registry, chip: ChipDescription, op: type[Any], within: frozenset[str] = frozenset()) -> bool:
    """True if the op has a legalization to ops that the chip computes, or that are composed themselves."""
    cell = registry.legalization(chip, op)
    if cell is None or op.name in within:
        return False
    return all(
        registry.lowering(chip, part, chip.compute_type) is not None
        or is_composed(registry, chip, part, within | {op.name})
        for part in cell.value.into
    )


def kernel_rows(registry: Registry, owners: Sequence[str], dialect: str) -> Mapping[str, str]:
    """The package that defines the kernel of each op."""
    ops = sorted({str(key) for owner in owners for key in registry.merged(KERNELS, owner, dialect).filled()})
    cells = {op: partial(registry.find_cell, KERNELS, owners, dialect, op) for op in ops}
    return {op: provider(cell, owners) or "-" for op, cell in cells.items()}


def computing_ops(registry: Registry, dialect: str) -> Mapping[str, type[Any]]:
    """The ops of a dialect that compute: not constants, inputs or absent operands."""
    from tpuc.ir.traits import Absent, Constant, NetworkInput

    if not registry.has("tpuc.dialects", dialect):
        return {}
    definition = registry.get("tpuc.dialects", dialect)
    ops = {f"{dialect}.{name}": definition.op(name) for name in definition.names()}
    return {name: op for name, op in ops.items() if not issubclass(op, (Constant, NetworkInput, Absent))}


def _package(cell: str | None) -> str:
    """The package of a cell of `table_rows`, without the family that it is from."""
    return (cell or "").partition(" ")[0]


def provider(find: Callable[[], Cell | None], owners: Sequence[str]) -> str | None:
    """The package that defines the cell; followed by the owner if that is a family of the chip."""
    try:
        cell = find()
    except PluginConflict:
        return CONFLICT
    if cell is None:
        return None
    return cell.package if cell.owner == owners[0] else f"{cell.package} ({cell.owner})"
