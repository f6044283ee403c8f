"""Rewrite ops that a chip does not support in terms of supported ones."""

from __future__ import annotations

from dataclasses import dataclass

from tpuc.api import Module, Pass, PassContext, Pattern, apply_patterns
from tpuc_ops import top
from tpuc_optimize.canonicalization.common import FloatOnly, Names
from tpuc_optimize.canonicalization.products import PartsOfProduct
from tpuc_optimize.canonicalization.volumes import DepthsAsChannels

from tpuc_lower.lowering.cells import Cells
from tpuc_lower.lowering.legalizer import Legalizer
from tpuc_lower.lowering.tables import tabulate
from tpuc_lower.target.results import FLOAT_SUMS


@dataclass(frozen=True)
class Legalize(Pass):
    """Rewrite, TOP to TOP, every op that has no lowering on the chip, or whose lowering refuses the node, by its
    legalization; the result may be legalized again. Ops without a legalization stay. Before that, whatever
    is computed of numbers that only the runtime reads becomes tables (`tables.py`), convolutions of volumes use idle
    lanes, and products that are only read in parts are divided, unless the chip works along the width of rows.

    Values within a composition have no calibration. They are moved values of a known range, or floats: their ops carry
    `compute_type` and are lowered in that mode, also in an integer network. `mode` as for `convert-top-to-tpu`.
    """

    name = "legalize"
    mode: str = ""

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass; raises Unsupported with all refusals at once, including ops without any lowering, and UsageError as
        `convert-top-to-tpu`.
        """
        cells = Cells.of(context, self.name, self.mode)
        names = Names(module)
        patterns: list[Pattern] = [
            FloatOnly(DepthsAsChannels(names, cells.chip.lanes, {*cells.modes, *cells.float_sums}))
        ]
        if not cells.chip.works_along_width:
            patterns.append(FloatOnly(PartsOfProduct(names)))
        has_parts = apply_patterns(module, patterns, constant=top.Weight(), absent=top.None_())
        has_tables = tabulate(module, cells)
        legalizer = Legalizer(module, cells)
        legalizer.run()
        context.leave(FLOAT_SUMS, frozenset(legalizer.float_sums))
        return has_parts or has_tables or legalizer.has_changed
