"""Gives values the thresholds per channel that the calibration table notes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuc.api import CalibrationError, ChipDescription, Module, Pass, PassContext
from tpuc.api.host import Array

from tpuc_passes.accuracy.channels import CHANNEL_THRESHOLDS, eligible, set_channel_scales
from tpuc_passes.accuracy.notes import parse_notes
from tpuc_passes.calibration.table import CalibrationTable, read_table


@dataclass(frozen=True)
class ScaleChannels(Pass):
    """Symmetric int8 values around functions of one tensor (a SiLU between convolutions) get a scale per channel.

    The thresholds are those that `tpuc calibrate` noted in the table (the file `table`, or
    `context.results["calibration_table"]`). Values next to layers that the quantise table makes float keep one scale,
    as all do on chips whose lowerings know nothing else.
    """

    name = "scale-channels"
    table: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError when the notes in the table do not fit the network."""
        given: Any = self.table or context.results.get("calibration_table")
        table: CalibrationTable | None = read_table(Path(given)) if isinstance(given, (str, Path)) else given
        mode = str(context.results.get("mode") or context.options.get("quantize") or "")
        if table is None or mode != "int8" or context.chip is None:
            return False
        return scale_channels(module, table, context.chip.description, context.results.get("quantise_table", {}))


def scale_channels(module: Module, table: CalibrationTable, chip: ChipDescription, floats: Collection[str]) -> bool:
    """As the pass does, on a calibrated module; returns whether any value got several scales."""
    if not chip.channel_scales:
        return False
    thresholds = noted_thresholds(module, table)
    return set_channel_scales(eligible(module, floats, chip.channel_scales), thresholds, chip.symmetric_divisor)


def noted_thresholds(module: Module, table: CalibrationTable) -> dict[str, Array]:
    """The thresholds per channel in a table by value name; raises CalibrationError for those of another network."""
    channels = {
        result.name: result.tensor.dims[1]
        for operation in module.main.operations
        for result in operation.results[:1]
        if result.name and result.type is not None and getattr(result.type, "shape", None) and result.tensor.rank == 4
    }
    try:
        return parse_notes(table.sections.get(CHANNEL_THRESHOLDS, ()), channels)
    except ValueError as error:
        raise CalibrationError(
            f"the calibration table's thresholds per channel do not fit module '{module.name}': {error}; calibrate it "
            "again with `tpuc calibrate`"
        ) from error
