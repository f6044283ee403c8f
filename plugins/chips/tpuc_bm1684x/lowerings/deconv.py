"""Transposed convolution with constant filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_chip_parts.lowering import is_stated, learned_scales
from tpuc_chip_parts.transposed import reaching
from tpuc_ops import top, tpu
from tpuc_ops.quant.products import quantize_product

from tpuc_bm1684x.lowerings.common import ALL, Array, float_weight, has_zero_points
from tpuc_bm1684x.lowerings.sums import scaled_sums
from tpuc_bm1684x.lowerings.table import TABLE


@TABLE.lowers(top.Deconv, *ALL)
class DeconvAny(Lowering[top.Deconv]):
    """Lowers like the convolution. The chip inserts literal zeros, which are wrong for nonzero zero points, so such
    integers are computed in f32, as are prequantized nodes whose filter has no 8-bit scales.
    """

    float_sums = True

    def refuse(self, node: LoweringNode) -> str | None:
        if node.constants[1] is None:
            return "the filter must be a constant"
        if len(node.op.kernel_shape) != 2:
            return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        given, bias = node.constants[1], node.constants[2]
        assert given is not None
        op, filters = reaching(node.op, given)
        lowered = tpu.Deconv(
            kernel_shape=op.kernel_shape,
            strides=op.strides,
            pads=op.pads,
            group=op.group,
            dilations=op.dilations,
            output_padding=op.output_padding,
            do_relu=op.do_relu,
            relu_limit=op.relu_limit,
            with_bias=bias is not None,
        )
        source = node.operands[0]
        learned = learned_scales(node)
        if has_zero_points(source.tensor) or (is_stated(node) and learned is None):
            wide = source.tensor.with_element(F32).at(None)
            source = build(tpu.Cast(with_scale=True), [source], wide, f"{node.name}_f32")
        if not source.tensor.is_quantized:
            operands = [source, *node.operands[1:]]
            depthwise = filters.shape[:2] == (1, op.group) and op.group > 1
            element = "f32" if depthwise else source.tensor.storage.name  # depthwise the chip computes in f32
            if element != "f32" or op is not node.op:
                operands[1] = float_weight(build, "filter", filters, element)
            return [build(lowered, operands, node.float_result_type())]
        result = node.quantized_result_type()
        product = quantize_product(op.turned(filters), bias, source.tensor.uniform, result.uniform, learned=learned)
        stored = _turned_back(product.filters, op.group)
        operands = [source, build.weight("filter_i8", stored, "si8"), build.none()]
        if product.bias is not None:
            operands[2] = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
        lowered = dataclasses.replace(lowered, with_bias=product.bias is not None)
        if node.float_sums:
            return [scaled_sums(node, build, lowered, operands, product.scales, axis=1)]
        scaled = dataclasses.replace(lowered, multiplier=product.multipliers, rshift=product.right_shifts)
        return [build(scaled, operands, result)]


def _turned_back(filters: Array, group: int) -> Array:
    """Convert convolution filters `[oc, c / group, kh, kw]` to those of the transposed convolution: `[oc / group, c,
    kh, kw]`.
    """
    outputs, channels, kh, kw = filters.shape
    turned = filters[:, :, ::-1, ::-1].reshape(group, outputs // group, channels, kh, kw).swapaxes(0, 1)
    return np.ascontiguousarray(turned.reshape(outputs // group, group * channels, kh, kw))
