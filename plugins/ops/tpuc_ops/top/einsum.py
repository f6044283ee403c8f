"""Einstein summation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Node, Op, Str, TensorType, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.products import einsum


@dataclass(frozen=True)
class Einsum(Op):
    """Einstein summation: `mode` names every dimension of every operand and of the result, as in ``bij,bjk->bik``."""

    name = "top.Einsum"
    mode: Str

    def infer(self, operands: Types) -> Types:
        sizes = self._sizes(operands)
        return (operands[0].shape_only().with_shape(tuple(sizes[label] for label in self.mode.split("->")[1])),)

    def _sizes(self, operands: Sequence[TensorType]) -> dict[str, int]:
        terms = self.mode.partition("->")[0].split(",")
        if "->" not in self.mode or [len(term) for term in terms] != [operand.rank for operand in operands]:
            raise ValueError(f"mode {self.mode} does not name the dimensions of these operands and of the result")
        sizes: dict[str, int] = {}
        for term, operand in zip(terms, operands, strict=True):
            for label, extent in zip(term, operand.dims, strict=True):
                if sizes.setdefault(label, extent) != extent:
                    raise ValueError(f"dimension {label} of {self.mode} is {sizes[label]} and {extent}")
        return sizes

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        return [einsum(self.mode, [as_float(operand) for operand in operands])]

    def flops(self, node: Node) -> int:
        sizes = self._sizes(node.operand_types)
        return 2 * math.prod(sizes.values())
