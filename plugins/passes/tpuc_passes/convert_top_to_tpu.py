"""Lowers a TOP module to the TPU dialect of a chip in one mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tpuc.api import Lowering, Module, Pass, PassContext, StringAttr, UsageError, drop_unused_weights, remove_dead

from tpuc_passes.lowering.engine import Lowerer
from tpuc_passes.planning.kernels import chip_of


@dataclass(frozen=True)
class ConvertTopToTpu(Pass):
    """Every op through its lowering cell; Casts where neighbours store values differently (DESIGN 4).

    `mode`, when empty, is what another pass left in `context.results["mode"]`, else the option `quantize` of the run,
    f32 when that is absent too. Single ops may have their own
    mode through the quantise table in `context.results["quantise_table"]`; those in `context.results["float_sums"]`
    need not round their results to bytes.
    """

    name = "convert-top-to-tpu"
    mode: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises UsageError for a mode the chip does not have, Unsupported with all refusals at once."""
        chip = chip_of(context, self.name)
        description = chip.description
        mode = self.mode or str(context.results.get("mode") or context.options.get("quantize") or "f32")
        if mode not in description.modes:
            raise UsageError(
                f"chip '{description.name}' has no mode '{mode}'. Its modes: {', '.join(description.modes)}."
            )
        owners = (description.name, *description.families)

        def find(op_name: str, op_mode: str) -> Lowering[Any] | None:
            dialect = op_name.partition(".")[0]
            cell = context.registry.find_cell("tpuc.lowerings", owners, dialect, (op_name, op_mode))
            return None if cell is None else cell.value

        results = context.results
        Lowerer(module, chip, mode, find, results.get("quantise_table", {}), results.get("float_sums", ())).run()
        remove_dead(module)
        drop_unused_weights(module)
        module.attributes |= {
            "module.chip": StringAttr(description.name),
            "module.mode": StringAttr(mode.upper()),
            "module.state": StringAttr("TPU_LOWERED"),
        }
        return True
