"""Apply the thresholds of a calibration table to the values of a TOP module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tpuc.api import (
    CALIBRATION_TABLE,
    Calibrated,
    CalibrationError,
    Constant,
    Module,
    Pass,
    PassContext,
    ScalarType,
    StringAttr,
    TensorType,
    Value,
)
from tpuc.api.boundary import is_postprocess
from tpuc_driver.api.host import CALIBRATED_ON

from tpuc_quantize.importing.qat_scales import (
    give_scales,
    keep_floats,
    learned_entries,
    own_entries,
    remark_on_kinds,
)
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold, as_table


@dataclass(frozen=True)
class ImportCalibration(Pass):
    """Give float values the type `!quant.calibrated<f32<min:max>>`: symmetric `[-threshold, threshold]`, or `[0,
    threshold]` for values that were never negative; in asymmetric modes the observed `[min, max]`.

    A table from training may omit values, which stay floats, and contains the scales of weights. The table is the file
    `table`, or the result `calibration_table`: a table, or its path. `asymmetric` defaults to the run's mode.
    """

    name = "import-calibration"
    table: str = ""
    asymmetric: bool | None = None

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises CalibrationError when the table lacks values of the module."""
        given: CalibrationTable | str | Path | None = self.table or context.find(CALIBRATION_TABLE)
        table = as_table(given)
        context.leave(CALIBRATION_TABLE, table)
        if table is None:
            raise CalibrationError(
                "int8 needs a calibration table; give samples with --dataset, or a table with --calibration-table"
            )
        operations = [operation for operation in module.main.operations if not is_postprocess(operation)]
        values = [value for operation in operations for value in operation.results if _is_float(value)]
        names = {value.name for value in values}
        entries = own_entries(table, names)
        if table.has_qat_scales:
            entries = learned_entries(module, table, entries)
        missing = [value.name for value in values if value.name not in entries]
        if missing and table.has_qat_scales and len(missing) < len(values):
            keep_floats(module, missing, context)
        elif missing:
            raise _incomplete(given, module, missing, len(values))
        asymmetric = self.asymmetric
        if asymmetric is None:
            asymmetric = str(context.options.get("quantize", "")).endswith("-asym")
        foreign = [name for name in entries if name not in names]
        if foreign:
            context.remark(
                f"calibration table: ignored {len(foreign)} values that are not in module '{module.name}' (first: "
                f"'{foreign[0]}')"
            )
        for value in values:
            if value.name in entries:
                value.type = value.tensor.with_element(_element(value.tensor, entries[value.name], asymmetric))
        remark_on_kinds(table, context)
        give_scales(module, table.learned_scales)
        module.main.update_type()
        module.attributes["module.state"] = StringAttr("TOP_CALIBRATED")
        if table.calibrated_on:
            module.attributes[CALIBRATED_ON] = StringAttr(table.calibrated_on)
        return True


def _incomplete(given: object, module: Module, missing: Sequence[str], count: int) -> CalibrationError:
    """Says what a table lacks, or where no table was given, for which operation the samples gave no range."""
    if isinstance(given, (str, Path)):
        return CalibrationError(
            f"{given}: {len(missing)} of {count} values of module '{module.name}' are missing (first: '{missing[0]}'); "
            "the table is incomplete or belongs to another network; make one with `tpuc calibrate`"
        )
    made = next(one for one in module.walk() for value in one.results if value.name == missing[0])
    return CalibrationError(
        f"{made.node().name} ({made.op.name}): the samples gave no range for '{missing[0]}', nor for "
        f"{len(missing) - 1} other of {count} values of module '{module.name}', because they ran through another form "
        "of the network; make a table of this form with `tpuc calibrate` and give it with --calibration-table"
    )


def _is_float(value: Value) -> bool:
    if not isinstance(value.type, TensorType) or isinstance(value.defining and value.defining.op, Constant):
        return False
    element = value.type.element
    return isinstance(element, Calibrated) or (isinstance(element, ScalarType) and element.is_float)


def _element(type: TensorType, entry: TensorThreshold, asymmetric: bool) -> Calibrated:
    if asymmetric:
        return Calibrated(type.storage, entry.minimum, entry.maximum)
    low = -entry.threshold if entry.minimum < 0 else 0.0
    return Calibrated(type.storage, low, entry.threshold)
