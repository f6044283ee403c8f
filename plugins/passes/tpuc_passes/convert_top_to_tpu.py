"""Lowers a TOP module to the TPU dialect of a chip in one mode."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext, StringAttr, drop_unused_weights, remove_dead

from tpuc_passes.lowering.cells import Cells
from tpuc_passes.lowering.engine import Lowerer


@dataclass(frozen=True)
class ConvertTopToTpu(Pass):
    """Every op through its lowering cell; Casts where neighbours store values differently (DESIGN 4).

    `mode`, when empty, is what another pass left in the result `mode`, else the option `quantize` of the run,
    f32 when that is absent too. Single ops may have their own
    mode through the quantise table in the result `quantise_table`; those in the result `float_sums`
    need not round their results to bytes.
    """

    name = "convert-top-to-tpu"
    mode: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for a mode the chip does not have, Unsupported with all refusals at once."""
        cells = Cells.of(context, self.name, self.mode)
        Lowerer(module, cells).run()
        remove_dead(module)
        drop_unused_weights(module)
        module.attributes |= {
            "module.chip": StringAttr(cells.chip.name),
            "module.mode": StringAttr(cells.mode.upper()),
            "module.state": StringAttr("TPU_LOWERED"),
        }
        return True
