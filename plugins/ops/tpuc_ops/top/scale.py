"""Scale and bias per channel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.shapes import is_absent, show
from tpuc_ops.traits import Differentiable, RowByRow


@dataclass(frozen=True)
class Scale(ReluFields, Op, RowByRow, Differentiable):
    """``x * scale + bias``, then relu: `x: [n, c, ...]`, scale and optional bias with `c` elements."""

    name = "top.Scale"

    def infer(self, operands: Types) -> Types:
        x, *others = operands
        for label, type in zip(("scale", "bias"), others, strict=False):
            if not is_absent(type) and type.size != x.dims[1]:
                raise ValueError(f"{label} {show(type.dims)} does not fit {x.dims[1]} channels")
        return (x.shape_only(),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, *others = (as_float(operand) for operand in operands)
        scale, *bias = (other.reshape(-1, *(1,) * (x.ndim - 2)) for other in others)
        result = x * scale
        if bias and bias[0].size:
            result = result + bias[0]
        return [self.activate(result)]

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array | None]:
        factors = operands[1].reshape(-1, *(1,) * (gradient.ndim - 2))
        return [gradient * factors, *[None] * (len(operands) - 1)]

    def flops(self, node: Node) -> int:
        return node.result_type.size * (2 + self.do_relu)
