"""Let neighboring values share one threshold where the op between them does not rescale."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tpuc.api import CALIBRATION_TABLE, Module, Operation, Pass, PassContext
from tpuc_ops.traits import Reorders
from tpuc_prequantized.integer_matrices import to_floats

from tpuc_quantize.importing.import_calibration import ImportCalibration
from tpuc_quantize.importing.propagation import (
    backward_join,
    backward_pad,
    backward_sum,
    backward_unary,
    calibration,
    forward,
    forward_sum,
    keep_sign,
)
from tpuc_quantize.importing.unroll_recurrences import UnrollRecurrences
from tpuc_quantize.scaling.move_factors import MoveFactors
from tpuc_quantize.tables.history import Origin, Stage
from tpuc_quantize.tables.table import CalibrationTable, as_table


@dataclass(frozen=True)
class PropagateCalibration(Pass):
    """Share thresholds between neighbors, so that Sx / Sy is 1 between them.

    In this order: forward through shape ops, keep signs, backward into joins, relus and pools, forward through all ops
    that only select or move values, keep signs again, and both ways through sums with a negligible operand. Thresholds
    from training are those that it computed with: only shape ops take over their operand's.
    """

    name = "propagate-calibration"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        operations = module.main.operations
        table = as_table(context.find(CALIBRATION_TABLE))
        changed = [forward(module, operation, Reorders) for operation in operations]
        if table is not None and table.has_qat_scales:
            module.main.update_type()
            return any(changed)
        changed += [keep_sign(operation) for operation in operations]
        changed += [_backward(module, operation) for operation in reversed(operations)]
        changed += [forward(module, operation) or forward_sum(operation) for operation in operations]
        changed += [keep_sign(operation) for operation in operations]
        module.main.update_type()
        return any(changed)


def _backward(module: Module, operation: Operation) -> bool:
    if backward_join(operation) or backward_sum(operation) or backward_pad(module, operation):
        return True
    return backward_unary(module, operation)


def calibrated_copy(module: Module, context: PassContext, table: str = "") -> Module:
    """A copy of a module with the thresholds of a table, as for `import-calibration`."""
    calibrated = module.clone()
    to_floats(calibrated, context)
    UnrollRecurrences(table).run(calibrated, context)
    MoveFactors(table).run(calibrated, context)
    ImportCalibration(table).run(calibrated, context)
    PropagateCalibration().run(calibrated, context)
    return calibrated


def propagated(origin: Origin, module: Module, table: CalibrationTable, context: PassContext) -> Origin:
    """The origin of a table's thresholds, followed by the changes that compilation makes."""
    silent = replace(context, results={CALIBRATION_TABLE: table}, remark=context.log)
    operations = calibrated_copy(module, silent).main.operations
    taken = {
        value.name: known.threshold
        for operation in operations
        for value in operation.results
        if (known := calibration(value)) is not None
    }
    own = {name: entry.threshold for name, entry in table.entries.items()}
    changed = {name: one for name, one in taken.items() if name in own and one != own[name]}
    return replace(
        origin, stages=(*origin.stages, Stage("taken over from neighbors by propagate-calibration", changed))
    )
