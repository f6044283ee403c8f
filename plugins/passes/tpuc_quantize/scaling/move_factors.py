"""Move the channel factors between filters that a calibration table states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tpuc.api import CALIBRATION_TABLE, Module, Pass, PassContext, remove_unused
from tpuc.api.evaluation import Array, state_factors, stated_factors
from tpuc_optimize.channel_links import find_links, move

from tpuc_quantize.tables.annotations import annotated
from tpuc_quantize.tables.table import CalibrationTable, as_table

FACTORS = "channel_factor"
"""The section of a calibration table with the factors: remarks of the form `#channel_factor op_name f0 f1 ...`."""


@dataclass(frozen=True)
class MoveFactors(Pass):
    """Divide channels by a factor in their producer and multiply them in their readers, for the factors of the table in
    the result `calibration_table` (or the file `table`). The module's attributes record the factors, so that its
    values can be compared with those of the original network; a module with recorded factors stays unchanged.
    """

    name = "move-factors"
    table: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError for the factors of another network."""
        table = as_table(self.table or context.find(CALIBRATION_TABLE))
        if table is None or stated_factors(module):
            return False
        return move_factors(module, annotated_factors(module, table))


def move_factors(module: Module, factors: Mapping[str, Array]) -> bool:
    """Move the factors of channels, given by the name of their producer, and record those of all values."""
    changed: dict[str, Array] = {}
    for link in list(find_links(module)) if factors else ():
        if link.producer.name in factors:
            own = factors[link.producer.name]
            move(module, link, own)
            changed |= {one.result.name: link.along(own) for one in (link.producer, *link.between)}
    if changed:
        state_factors(module, changed)
        remove_unused(module)
    return bool(changed)


def annotated_factors(module: Module, table: CalibrationTable) -> dict[str, Array]:
    """The factors in a table by the name of the op that produces the channels."""
    if FACTORS not in table.sections:
        return {}
    channels = {link.producer.name: link.channels for link in find_links(module)}
    return annotated(module, table, FACTORS, "factors per channel", channels)
