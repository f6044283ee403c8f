"""Matrix product."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, Node, Op, Str, Types

from tpuc_ops import quantized
from tpuc_ops.adjoints import matrix_gradient
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.product import ProductFields, product_flops, product_shape
from tpuc_ops.products import matmul
from tpuc_ops.traits import Differentiable, ExtractsFeatures


@dataclass(frozen=True)
class MatMul(ReluFields, ProductFields, Op, quantized.Product, quantized.Rescales, ExtractsFeatures, Differentiable):
    """``left @ right + bias`` over the last two dimensions, then relu: `left: [..., m, k]`, `right: [..., k, n]`.

    Leading dimensions broadcast; each `*_transpose` exchanges the last two dimensions of that tensor. `bias` has `n`
    elements or broadcasts to the result.
    """

    name = "top.MatMul"
    slots = listed(3, kept=3)
    keep_dims: Bool = True
    dq_type: Str = "NONE"
    is_lora: Bool = False
    q_group_size: I64 = 0

    def infer(self, operands: Types) -> Types:
        return (operands[0].shape_only().with_shape(product_shape(self, operands)),)

    def filter_axis(self, operands: Types) -> int:
        return operands[1].rank - (2 if self.right_transpose else 1)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.matmul(self, node, operands)]
        return [self.finished(node, self.sums(as_float(operands[0]), as_float(operands[1])), operands[2:3])]

    def sums(self, left: Array, right: Array, *, whole: bool = False) -> Array:
        """Return the sums of products only. `whole`: operands are integers whose sums their type represents exactly."""
        left = np.swapaxes(left, -1, -2) if self.left_transpose else left
        right = np.swapaxes(right, -1, -2) if self.right_transpose else right
        return np.matmul(left, right) if whole else matmul(left, right)

    def finished(self, node: Node, sums: Array, bias: Sequence[Array]) -> Array:
        """Return the result from sums."""
        if bias and bias[0].size:
            sums = sums + as_float(bias[0])
        sums = np.swapaxes(sums, -1, -2) if self.output_transpose else sums
        return self.activate(sums).reshape(node.result_type.dims)

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array | None]:
        left, right, *others = operands
        return [*matrix_gradient(self, left, right, gradient), *[None] * len(others)]

    def flops(self, node: Node) -> int:
        return product_flops(self, node, self.do_relu)
