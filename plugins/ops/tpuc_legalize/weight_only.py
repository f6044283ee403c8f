"""Products with matrices of small integers, for chips that do not expand them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import LoweringNode, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.weight_only import refuse_computed

from tpuc_legalize.composer import Composed, Composer, Part
from tpuc_legalize.table import TABLE


@TABLE.legalizes(top.A16MatMul)
class A16MatMulAny(Composed[top.A16MatMul]):
    """A product with the floats that the integers mean."""

    into = (top.MatMul,)

    def refuse(self, node: LoweringNode) -> str | None:
        return refuse_computed(node)

    def compose(self, node: LoweringNode[top.A16MatMul], do: Composer, parts: Sequence[Part]) -> Sequence[Value]:
        _, weight, scale, zp, bias = (*node.constants, None)[:5]
        x = node.operands[0]
        assert weight is not None
        absent = np.zeros(0, np.float32)
        scale, zp = (absent if array is None else array for array in (scale, zp))
        matrix: Array = node.op.real(weight, scale, zp, x.tensor.dims[-1])
        return [do(top.MatMul(right_transpose=True), x, matrix, bias, last=True)]
