"""Unroll recurrent layers on chips that have no lowering for them, so that the values inside get ranges."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpuc.api import CALIBRATION_TABLE, FLOAT_MODES, Module, Pass, PassContext
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.lowering.unrolling import inside, recurrent_layers, unroll
from tpuc_lower.target.results import MODE

from tpuc_quantize.tables.table import CalibrationTable, as_table


@dataclass(frozen=True)
class UnrollRecurrences(Pass):
    """Replace LSTM, GRU, and RNN by their steps in integer modes if the chip has no lowering for them and the
    calibration table (the result `calibration_table`, or the file `table`) has ranges for the values inside; without a
    chip in any case. Remove what the table says of the inside of other layers.
    """

    name = "unroll-recurrences"
    table: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        layers = list(recurrent_layers(module))
        table = as_table(self.table or context.find(CALIBRATION_TABLE)) if layers else None
        if table is None:
            return False
        mode = str(context.find(MODE, "") or context.options.get("quantize") or "int8")
        cells = None if context.chip is None else Cells.of(context, self.name, mode)
        found = [
            layer
            for layer in layers
            if any(name.startswith(inside(layer)) for name in table.entries)
            and mode not in FLOAT_MODES
            and (cells is None or cells.lowering(layer.op, mode) is None)
        ]
        kept = tuple(inside(layer) for layer in layers if layer not in found)
        if kept:
            context.leave(CALIBRATION_TABLE, _without(table, kept))
        return unroll(module, found, context.registry)


def _without(table: CalibrationTable, prefixes: tuple[str, ...]) -> CalibrationTable:
    """A table without the names that start with one of the prefixes."""
    entries = {name: entry for name, entry in table.entries.items() if not name.startswith(prefixes)}
    sections = {
        section: tuple(line for line in lines if not line.startswith(prefixes))
        for section, lines in table.sections.items()
    }
    return replace(table, entries=entries, sections={name: lines for name, lines in sections.items() if lines})
