"""Matrix product as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, F64Array, I64Array, Node, Op, Raw, RequantMode, RoundMode, ScalarType, Str, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import listed
from tpuc_ops.convolution import exact_dtype, magnitude
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import clamped, is_integer, requantized, requantized_by_floats, scaled_in_half, without_point
from tpuc_ops.product import ProductFields, product_flops, product_shape
from tpuc_ops.products import matmul
from tpuc_ops.quant.arithmetic import saturate


@dataclass(frozen=True)
class MatMul(ReluFields, ProductFields, Op):
    """``left @ right + bias`` over the last two dimensions, then relu; two more operands, for chips, are ignored.

    Floats are multiplied and added in float32 and rounded to the result's width. Integers are exact, in this order:

    1. sum of ``(l - input_zp) * (r - right_zp)``; plus the int32 bias, saturated to int32;
    2. `multipliers` and `rshifts`, one pair or one per column of the result, by `quant_mode` and `round_mode`; plus the
       result's zero point, saturated to its storage. With `scales` instead, one or one per column:
       ``f32(sum) * f32(scale)`` rounded by `round_mode` to 16 bits, plus the zero point, saturated. Without
       either, the int32 sums are the result. With `offset_in_bias`, the bias already contains the zero point, in the
       scale of the sums. A float result has `scales`, then a float bias: both steps are truncated to float32, and
       the sum is rounded to bf16;
    3. relu at the zero point, `relu_limit` in the result's scale.
    """

    name = "tpu.MatMul"
    slots = listed(5, kept=5)
    quant_mode: RequantMode = "MultiplierShift"
    multipliers: I64Array = ()
    rshifts: I64Array = ()
    scales: F64Array = ()
    offset_in_bias: Bool = False
    round_mode: RoundMode = "HalfAwayFromZero"
    input_zp: I64 = 0
    right_zp: I64 = 0
    keep_dims: Bool = True
    cal_i8: Bool | None = None
    dq_type: Str = "NONE"
    fuse_rq: Bool = False
    is_lora: Bool = False
    left_reuse: I64 = 0
    q_group_size: I64 = 0
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        left = operands[0]
        shape = product_shape(self, operands)
        if is_integer(left) and not (self.multipliers or self.scales):
            return (left.with_shape(shape).with_element(ScalarType("i32")),)
        return (left.shape_only().with_shape(shape),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        left, right, *bias = operands[:3]
        left = np.swapaxes(left, -1, -2) if self.left_transpose else left
        right = np.swapaxes(right, -1, -2) if self.right_transpose else right
        added = bias[0] if bias and bias[0].size else None
        if is_integer(node.operand_types[0]):
            return [self._integer(node, left, right, added)]
        result = matmul(as_float(left), as_float(right))
        if added is not None:
            result = result + as_float(added)
        return [stored(self._arrange(self.activate(result), node), node.result_type)]

    def _arrange(self, result: Array, node: Node) -> Array:
        result = np.swapaxes(result, -1, -2) if self.output_transpose else result
        return result.reshape(node.result_type.dims)

    def _integer(self, node: Node, left: Array, right: Array, bias: Array | None) -> Array:
        left = left.astype(np.int32) - self.input_zp
        right = right.astype(np.int32) - self.right_zp
        rows = np.moveaxis(right, -2, -1).reshape(-1, right.shape[-2])
        dtype = exact_dtype(magnitude(left), rows)
        acc = (left.astype(dtype) @ right.astype(dtype)).astype(np.int64)
        if not is_integer(node.result_type):
            floats = scaled_in_half(acc.reshape(-1, acc.shape[-1]), self.scales, bias).reshape(acc.shape)
            return stored(self._arrange(self.activate(floats), node), node.result_type)
        if bias is not None:
            acc = acc + bias
        acc = saturate(acc, np.int32)
        columns = acc.reshape(-1, acc.shape[-1])
        if self.scales:
            acc = requantized_by_floats(columns, self.scales, self.round_mode, node.result_type).reshape(acc.shape)
        elif self.multipliers:
            type = without_point(node.result_type) if self.offset_in_bias else node.result_type
            factors = (self.multipliers, self.rshifts, self.quant_mode, self.round_mode)
            acc = requantized(columns, *factors, type).reshape(acc.shape)
        return self._arrange(clamped(acc, node.result_type, self.do_relu, self.relu_limit), node)

    def flops(self, node: Node) -> int:
        return product_flops(self, node, self.do_relu)
