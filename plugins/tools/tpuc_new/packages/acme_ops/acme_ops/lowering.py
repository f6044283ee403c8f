"""How chips compute `acme.Gelu7`; each chip's table registers it for the modes that its kernel can run."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.quant.arithmetic import Rounding, round_to_int

from acme_ops.gelu7 import HIGHEST, LOWEST, Gelu7
from acme_ops.stored_gelu7 import StoredGelu7


class Gelu7Any(Lowering[Gelu7]):
    """The result keeps the operand's type and scale, so integers need clamps, a shift and a sum."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        type = node.operands[0].tensor.at(None)
        low, high = LOWEST, HIGHEST
        if type.is_quantized:
            smallest, largest = type.uniform.bounds
            stored = [LOWEST / type.uniform.scale, HIGHEST / type.uniform.scale]
            low, high = round_to_int(stored, Rounding.HALF_AWAY_FROM_ZERO)
            low, high = float(max(low, smallest)), float(min(high, largest))
        return [build(StoredGelu7(low=low, high=high), node.operands, type)]
