"""`acme.Gelu7` on stored values, as chips compute it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, Elementwise, Node, Op, Raw, Types

from acme_ops.gelu7 import SLOPE_SHIFT, Array


@dataclass(frozen=True)
class StoredGelu7(Op, Elementwise):
    """``clip(q, 0, high) + clip(q, low, 0) / 8``; operand and result share type and scale.

    On integers the quotient is rounded half up. `low` and `high` are in units of the stored values, whole for
    integers.
    """

    name = "acme.StoredGelu7"
    low: F64
    high: F64
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        return (x.at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        if node.result_type.storage.is_float:
            return [np.clip(x, 0, self.high) + np.clip(x, self.low, 0) / x.dtype.type(1 << SLOPE_SHIFT)]
        wide = x.astype(np.int32)
        below = (np.clip(wide, int(self.low), 0) + (1 << SLOPE_SHIFT - 1)) >> SLOPE_SHIFT
        return [(np.clip(wide, 0, int(self.high)) + below).astype(x.dtype)]

    def flops(self, node: Node) -> int:
        return 4 * node.result_type.size
