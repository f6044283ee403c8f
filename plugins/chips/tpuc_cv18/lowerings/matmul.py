"""Matrix products with constant filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import BF16, F32, Lowering, LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_chip_parts.lowering import is_stated, learned_scales
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array, as_bf16
from tpuc_cv18.lowerings.computed import computed_refusal, is_computed, lower_computed
from tpuc_cv18.lowerings.qdm import (
    float_sums,
    is_stored,
    quantize_qdm,
    stored_filters,
    stored_qdm,
)
from tpuc_cv18.lowerings.relu_apart import with_relu_apart
from tpuc_cv18.lowerings.table import TABLE
from tpuc_cv18.lowerings.wide_filters import byte_count, repeated, split


@TABLE.lowers(top.MatMul, "bf16")
class MatMulBf16(Lowering[top.MatMul]):
    """Matrix product in bf16; the bias stays float32."""

    def refuse(self, node: LoweringNode) -> str | None:
        return computed_refusal(node) if is_computed(node) else None

    def lower(self, node: LoweringNode[top.MatMul], build: LoweringBuilder) -> Sequence[Value]:
        right = node.constants[1]
        if right is None or is_computed(node):
            return lower_computed(node, build)
        lowered = tpu.MatMul(
            right_transpose=node.op.right_transpose, do_relu=node.op.do_relu, relu_limit=node.op.relu_limit
        )
        absent = build.none()
        stored = build.weight("filter_bf16", as_bf16(right), "bf16")
        operands = [node.operands[0], stored, node.operands[2], absent, absent]
        return [build(lowered, operands, node.float_result_type())]


@TABLE.lowers(top.MatMul, "int8")
class MatMulInt8(Lowering[top.MatMul]):
    """Lowers like the convolution, with one multiplier and shift, or one scale, per result column."""

    float_sums = True

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_stated(node) and not is_computed(node) and is_stored(node)

    def refuse(self, node: LoweringNode) -> str | None:
        return computed_refusal(node) if is_computed(node) else None

    @with_relu_apart
    def lower(self, node: LoweringNode[top.MatMul], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        right = node.constants[1]
        if right is None or is_computed(node):
            return lower_computed(node, build)
        bias = node.constants[2]
        result = node.quantized_result_type()
        value, kept = node.operands[0], stored_filters(node)
        source = value.tensor
        right = right if kept is None else kept.filters
        columns = right if op.right_transpose else right.T
        if kept is not None:
            count = byte_count(columns)
            if count > 1:
                value = repeated(value, count, len(source.dims) - 1, f"{node.name}_again", build)
                columns = split(columns, count, 1)
            product = stored_qdm(columns, kept.scales, bias, source.uniform, result.uniform)
        elif node.float_sums:
            return [self._floats(node, build, columns, result)]
        else:
            product = quantize_qdm(columns, bias, source.element, result.element, learned_scales(node))
        absent = build.none()
        stored = product.filters if op.right_transpose else np.ascontiguousarray(product.filters.T)
        bias32 = absent if product.bias is None else build.weight("bias_i32", product.bias.reshape(1, -1))
        lowered = tpu.MatMul(
            right_transpose=op.right_transpose,
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
            multipliers=product.multipliers,
            rshifts=product.right_shifts,
            **QDM,
        )
        if zero_point(result):
            lowered = dataclasses.replace(lowered, do_relu=False, relu_limit=-1.0, offset_in_bias=True)
        operands = [value, build.weight("filter_i8", stored, "si8"), bias32, absent, absent]
        return [build(lowered, operands, result)]

    def _floats(
        self, node: LoweringNode[top.MatMul], build: LoweringBuilder, columns: Array, result: TensorType
    ) -> Value:
        """The product with float output."""
        op = node.op
        rows, scales = float_sums(columns, node.operands[0].tensor.element, result.element)
        stored = rows if op.right_transpose else np.ascontiguousarray(rows.T)
        lowered = tpu.MatMul(
            right_transpose=op.right_transpose, do_relu=op.do_relu, relu_limit=op.relu_limit, scales=scales
        )
        absent = build.none()
        operands = [node.operands[0], build.weight("filter_i8", stored, "si8"), node.operands[2], absent, absent]
        return build(lowered, operands, result.with_element(F32 if node.read_as_f32 else BF16))
