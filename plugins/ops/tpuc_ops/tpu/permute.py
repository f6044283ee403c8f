"""Permutation of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64Array, Node, Op, Raw, Types

from tpuc_ops.arrays import Array
from tpuc_ops.attributes import listed
from tpuc_ops.shapes import permuted
from tpuc_ops.traits import Reorders


@dataclass(frozen=True)
class Permute(Op, Reorders):
    """Dimension `i` of the result is dimension `order[i]` of the operand. A second operand, for some chips, is
    ignored.
    """

    name = "tpu.Permute"
    slots = listed(2, kept=1)
    order: I64Array
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        x = operands[0]
        return (x.with_shape(permuted(x.dims, self.order)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [np.transpose(operands[0], self.order)]
