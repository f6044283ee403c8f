"""`acme.Gelu7` for chips that nobody wrote cells for: as ops that every chip has."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import ANY_CHIP, LegalizationTable, LoweringNode, Value
from tpuc_legalize.composer import Composed, Composer, Part
from tpuc_ops import top

from acme_ops.gelu7 import HIGHEST, LOWEST, SLOPE_SHIFT, Gelu7

TABLE = LegalizationTable(ANY_CHIP, "acme")


@TABLE.legalizes(Gelu7)
class Gelu7Composed(Composed[Gelu7]):
    """The formula, in floats."""

    into = (top.Add, top.Clip, top.MulConst)

    def compose(self, node: LoweringNode, do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        above = do(top.Clip(min=0.0, max=HIGHEST), parts[0])
        below = do(top.MulConst(const_val=1 / (1 << SLOPE_SHIFT)), do(top.Clip(min=LOWEST, max=0.0), parts[0]))
        return [do(top.Add(), above, below, last=True)]
