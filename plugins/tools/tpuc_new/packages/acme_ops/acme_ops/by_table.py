"""The lowering for CV183x in int8: one entry per stored byte, which is exact for every function of one number."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, LoweringTable, Value
from tpuc_chip_parts.lowering import table_of
from tpuc_ops import tpu

from acme_ops.gelu7 import Gelu7

LOWERINGS = LoweringTable("cv183x", "acme")


@LOWERINGS.lowers(Gelu7, "int8")
class Gelu7ByTable(Lowering[Gelu7]):
    """`tpu.Lut`, for which the chip has a kernel."""

    def lower(self, node: LoweringNode[Gelu7], build: LoweringBuilder) -> Sequence[Value]:
        result = node.quantized_result_type()
        entries = table_of(node.op, node.operands[0].tensor, result)
        element = "ui8" if result.storage.is_unsigned else "si8"
        table = build.weight("table", entries.reshape(1, 1, 1, 256), element)
        return [build(tpu.Lut(), [node.operands[0], table], result)]
