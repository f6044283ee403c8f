"""Keep attention masks and masked scores in floats: no 8-bit scale can represent both."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import CALIBRATION_TABLE, QUANTIZE_TABLE, Module, Pass, PassContext
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.target.kernels import chip_of
from tpuc_lower.target.results import MODE
from tpuc_ops.traits import StridedView, states
from tpuc_optimize.canonicalization.masks import masked_scores

from tpuc_quantize.tables.table import as_table


@dataclass(frozen=True)
class KeepMasksFloat(Pass):
    """Compute masks, the masked scores, and the softmaxes and maxima behind them in the chip's most precise float mode:
    an 8-bit scale that covers -10000 has one step for all scores, and f16 has infinity for the lowest float32.

    The ops are added to the result `quantize_table`, after the user's own entries. Ops that only move data keep the
    type of their operand. A pre-quantized network already states what is float.
    """

    name = "keep-masks-float"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; changes only the results of the run."""
        chip, mode = chip_of(context, self.name).description, str(context.options.get("quantize") or "f32")
        table = as_table(context.find(CALIBRATION_TABLE))
        if context.find(MODE, "") or (table is not None and table.has_qat_scales) or chip.float_mode in (None, mode):
            return False
        assert chip.float_mode is not None
        cells = Cells.of(context, self.name, mode)
        modes: dict[str, str] = dict(context.find(QUANTIZE_TABLE, {}))
        for operation in masked_scores(module):
            if not states(operation.op, StridedView) and cells.computes(operation.op, chip.float_mode):
                modes.setdefault(operation.name, chip.float_mode)
        context.leave(QUANTIZE_TABLE, modes)
        return False
