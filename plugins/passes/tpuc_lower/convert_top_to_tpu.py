"""Lower a TOP module to the TPU dialect of a chip in one mode."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import (
    FLOAT_MODES,
    STORED_OUTPUTS,
    Module,
    Pass,
    PassContext,
    StringAttr,
    UsageError,
    remove_unused,
)

from tpuc_lower.lowering.cells import Cells
from tpuc_lower.lowering.engine import Lowerer
from tpuc_lower.target.results import CHIP


@dataclass(frozen=True)
class ConvertTopToTpu(Pass):
    """Lower every op by its table cell, and insert Casts where neighbors store values differently.

    `mode`, when empty, is the result `mode` of an earlier pass, else the run's option `quantize`, else f32. The
    quantize table in the result `quantize_table` overrides it for single ops; ops in the result `float_sums` need not
    round their results to bytes. Outputs at positions in the result `stored_outputs` are bytes in the integer modes,
    rounded at the end where they are computed in floats.

    As in TPU-MLIR the case of `mode` does not matter, `asymmetric` makes an integer mode asymmetric, and `chip` is for
    runs without one: later passes use it, too.
    """

    name = "convert-top-to-tpu"
    mode: str = ""
    asymmetric: bool = False
    chip: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for a mode the chip does not have, Unsupported with all refusals at once."""
        if self.chip:
            self._choose_chip(context)
        cells = Cells.of(context, self.name, self._stated_mode(context))
        stored = frozenset[int]() if cells.mode in FLOAT_MODES else context.find(STORED_OUTPUTS, frozenset[int]())
        Lowerer(module, cells, stored).run()
        remove_unused(module)
        module.attributes |= {
            "module.chip": StringAttr(cells.chip.name),
            "module.mode": StringAttr(cells.mode.upper()),
            "module.state": StringAttr("TPU_LOWERED"),
        }
        return True

    def _stated_mode(self, context: PassContext) -> str:
        """The mode in the options, empty when they leave it to the run."""
        mode = self.mode.lower()
        if self.asymmetric:
            mode = mode or str(context.options.get("quantize") or "f32")
            return f"{mode}-asym" if mode.startswith("int") and not mode.endswith("-asym") else mode
        return mode

    def _choose_chip(self, context: PassContext) -> None:
        chosen = context.registry.get("tpuc.chips", self.chip.lower())
        if context.chip is not None and context.chip.description.name != chosen.description.name:
            raise UsageError(
                f"pass '{self.name}' is for chip '{chosen.description.name}', but the run is for "
                f"'{context.chip.description.name}'; use one chip"
            )
        context.leave(CHIP, chosen)
