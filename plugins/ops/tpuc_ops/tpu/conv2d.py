"""Convolution as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, F64Array, I64Array, Node, Op, Raw, RequantMode, RoundMode, ScalarType, Types

from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import listed
from tpuc_ops.convolution import convolve, exact_dtype, magnitude
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import (
    clamped,
    is_integer,
    requantized,
    requantized_by_floats,
    scaled_in_half,
    without_point,
    zero_point,
)
from tpuc_ops.quant.arithmetic import saturate
from tpuc_ops.shapes import is_absent
from tpuc_ops.top.conv import check_filter
from tpuc_ops.traits import RowByRow
from tpuc_ops.window import Window, spatial


@dataclass(frozen=True)
class Conv2D(ReluFields, Op, RowByRow):
    """Cross-correlation of `x: [n, c, h, w]` with `filter: [oc, c / group, kh, kw]`, plus a bias of `oc` elements.

    Floats are multiplied and added in float32 and rounded to the result's width. Integers are exact, in this order:

    1. sum of ``q * (w - kernel_zp)``, where padding holds the operand's zero point (the bias compensates it);
    2. plus the int32 bias, saturated to int32;
    3. `multiplier` and `rshift`, one pair or one per output channel, by `quant_mode` and `round_mode`; plus the
       result's zero point, saturated to its storage. With `scales` instead, one or one per output channel:
       ``f32(sum) * f32(scale)`` rounded by `round_mode` to 16 bits, plus the zero point, saturated. Without
       either, the int32 sums are the result. With `offset_in_bias`, the bias already contains the zero point, in the
       scale of the sums. A float result has `scales`, then a float bias: both steps are truncated to float32, and
       the sum is rounded to bf16;
    4. relu at the zero point, `relu_limit` in the result's scale.

    The remaining attributes describe how a chip stores the filter; they do not change the value. `wide`: output and
    input channel of each filter value that does not fit a byte, as a flat list.
    """

    name = "tpu.Conv2D"
    slots = listed(3, kept=3)
    kernel_shape: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    group: I64 = 1
    dilations: I64Array = (1, 1)
    inserts: I64Array | None = None
    with_bias: Bool = True
    kernel_zp: I64 = 0
    quant_mode: RequantMode = "MultiplierShift"
    multiplier: I64Array = ()
    rshift: I64Array = ()
    scales: F64Array = ()
    offset_in_bias: Bool = False
    wide: I64Array = ()
    round_mode: RoundMode = "HalfUp"
    coeff_merged: Bool = False
    do_winograd: Bool | None = None
    dynweight_reorderd: Bool = False
    support_compress: Bool = False
    use_3ic_optimize: I64 = 0
    weight_is_coeff: I64 = 1
    ginfo: Raw = None

    def window(self) -> Window:
        """Return the sliding window over rows and columns; raises ValueError if the attributes contradict each
        other.
        """
        return Window.of(self.kernel_shape, self.strides, self.pads, self.dilations)

    def infer(self, operands: Types) -> Types | None:
        x, weight = operands[:2]
        output = self.window().output(spatial(x.dims, 2))
        depthwise_rows = self.group > 1 and weight.dims[:2] == (1, self.group)
        if self.inserts or depthwise_rows or weight.dims[2:] != self.kernel_shape:
            return None  # zeros between rows, or a filter in a chip's own order: the declared type decides
        dims = (x.dims[0], check_filter(x, weight, self.kernel_shape, self.group), *output)
        if is_integer(x) and not (self.multiplier or self.scales):
            return (x.with_shape(dims).with_element(ScalarType("i32")),)
        return (x.shape_only().with_shape(dims),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, weight, *bias = operands[:3]
        if self.inserts:
            raise ValueError("inserts are not supported in tpu.Conv2D")
        bias = bias[0].reshape(-1, 1, 1) if bias and bias[0].size else None
        if is_integer(node.operand_types[0]):
            return [self._integer(node, x, weight, bias)]
        result = convolve(as_float(x), as_float(weight), self.window(), self.group)
        if bias is not None:
            result += as_float(bias)
        return [stored(self.activate(result), node.result_type)]

    def _integer(self, node: Node, x: Array, weight: Array, bias: Array | None) -> Array:
        weight = weight.astype(np.int32) - self.kernel_zp
        fill = zero_point(node.operand_types[0])
        dtype = exact_dtype(max(magnitude(x), abs(fill)), weight)
        acc = convolve(x.astype(dtype), weight, self.window(), self.group, fill, whole=True).astype(np.int64)
        if not is_integer(node.result_type):
            return stored(self.activate(scaled_in_half(acc, self.scales, bias)), node.result_type)
        if bias is not None:
            acc += bias
        acc = saturate(acc, np.int32)
        if self.scales:
            q = requantized_by_floats(acc, self.scales, self.round_mode, node.result_type)
            return clamped(q, node.result_type, self.do_relu, self.relu_limit)
        if not self.multiplier:
            return clamped(acc, node.result_type, self.do_relu, self.relu_limit)
        type = without_point(node.result_type) if self.offset_in_bias else node.result_type
        q = requantized(acc, self.multiplier, self.rshift, self.quant_mode, self.round_mode, type)
        return clamped(q, node.result_type, self.do_relu, self.relu_limit)

    def flops(self, node: Node) -> int:
        depth = node.operand_types[0].dims[1] // self.group * self.window().taps
        has_bias = len(node.operand_types) > 2 and not is_absent(node.operand_types[2])
        return node.result_type.size * (2 * depth + has_bias + self.do_relu)
