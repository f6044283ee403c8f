"""Keep states of recurrent cells and magnitudes of spectra in floats: rounded to bytes, their errors add up."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import CALIBRATION_TABLE, QUANTIZE_TABLE, Module, Pass, PassContext
from tpuc_lower.lowering.cells import Cells
from tpuc_lower.target.kernels import chip_of
from tpuc_lower.target.results import MODE
from tpuc_ops.traits import StridedView, states
from tpuc_optimize.canonicalization.wide_structures import wide_structures

from tpuc_quantize.tables.table import as_table


@dataclass(frozen=True)
class KeepStatesFloat(Pass):
    """In the integer modes, compute what carries the state of a recurrent cell from step to step, and the squares and
    roots of a spectrum, in the chip's widest float type, and on chips with float32, products that read states in f16
    where they are a small part of the network, while others return sums as floats. Record 0043 has the measurements.

    The ops are added to the result `quantize_table`, after the user's own entries. A pre-quantized network already
    states what is float.
    """

    name = "keep-states-float"

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; changes only the results of the run."""
        chip, mode = chip_of(context, self.name).description, str(context.options.get("quantize") or "f32")
        table = as_table(context.find(CALIBRATION_TABLE))
        if context.find(MODE, "") or (table is not None and table.has_qat_scales):
            return False
        if chip.float_mode is None or not mode.startswith("int8"):
            return False
        cells = Cells.of(context, self.name, mode)
        modes: dict[str, str] = dict(context.find(QUANTIZE_TABLE, {}))
        for operation in wide_structures(module):
            if not states(operation.op, StridedView) and cells.computes(operation.op, chip.float_mode):
                modes.setdefault(operation.name, chip.float_mode)
        context.leave(QUANTIZE_TABLE, modes)
        return False
