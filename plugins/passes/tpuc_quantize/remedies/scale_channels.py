"""Give values the per-channel thresholds that the calibration table states."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tpuc.api import (
    CALIBRATION_TABLE,
    QUANTIZE_TABLE,
    Module,
    Operation,
    Pass,
    PassContext,
    TensorType,
    UniformPerAxis,
)
from tpuc.api.evaluation import Array
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.target.results import MODE

from tpuc_quantize.remedies.channel_thresholds import CHANNEL_THRESHOLDS, channel_elements, eligible
from tpuc_quantize.tables.annotations import annotated
from tpuc_quantize.tables.table import CalibrationTable, as_table

MODES = ("int8", "int8-asym")


@dataclass(frozen=True)
class ScaleChannels(Pass):
    """Give int8 values around unary functions (a SiLU between convolutions) a scale per channel, without zero point.

    The thresholds are those that `tpuc calibrate` wrote to the table (the file `table`, or the result
    `calibration_table`). Values next to float layers of the quantize table keep one scale, as do all values on chips
    whose lowerings do not support several.
    """

    name = "scale-channels"
    table: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError when annotations of the table do not fit the network."""
        table = as_table(self.table or context.find(CALIBRATION_TABLE))
        mode = str(context.find(MODE) or context.options.get("quantize") or "")
        if table is None or table.has_qat_scales or mode not in MODES or context.chip is None:
            return False
        floats = context.find(QUANTIZE_TABLE, {})
        elements = annotated_elements(module, table, Cells.of(context, self.name, mode), floats)
        for operation in module.main.operations:
            for value in operation.results:
                if value.name in elements:
                    value.type = value.tensor.with_element(elements[value.name])
        return bool(elements)


def annotated_elements(
    module: Module, table: CalibrationTable, cells: Cells, floats: Collection[str]
) -> dict[str, UniformPerAxis]:
    """The stored types of the values that get several scales on the chip, by name."""

    def takes(operation: Operation) -> bool:
        cell = cells.lowering(operation.op, cells.mode)
        return cell is not None and cell.channel_scales

    values = list(eligible(module, floats, takes))
    if not values:
        return {}
    return channel_elements(iter(values), annotated_thresholds(module, table), cells.chip.symmetric_divisor)


def annotated_thresholds(module: Module, table: CalibrationTable) -> dict[str, Array]:
    """The thresholds per channel in a table by value name; raises CalibrationError for another network's."""
    channels = {
        value.name: value.tensor.dims[1]
        for operation in module.main.operations
        for value in operation.results
        if isinstance(value.type, TensorType) and value.tensor.rank == 4
    }
    return annotated(module, table, CHANNEL_THRESHOLDS, "thresholds per channel", channels)
