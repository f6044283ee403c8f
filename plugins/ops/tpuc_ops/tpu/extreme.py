"""Shared code of element-wise maxima and minima of stored values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar

import numpy as np
from tpuc.api import Bool, Commutative, Elementwise, Node, Op, Raw, Types, numpy_dtype

from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import broadcast_type


@dataclass(frozen=True)
class Extreme(Op, Elementwise, Commutative):
    """The largest or smallest of all operands at each position, with broadcasting; all are stored like the result."""

    is_scalar: Bool = False
    ginfo: Raw = None
    choose: ClassVar[np.ufunc]

    def infer(self, operands: Types) -> Types:
        plain = broadcast_type(operands)
        if len({numpy_dtype(operand.storage) for operand in operands}) > 1:
            names = ", ".join(str(operand.storage) for operand in operands)
            raise ValueError(f"operands of one type are needed, these are {names}")
        return (operands[0].with_shape(plain.dims).at(None),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [reduce(self.choose, operands)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (len(node.operand_types) - 1)
