"""Transposed convolution as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, I64Array, Node, Op, Raw, RequantMode, RoundMode, ScalarType, Types

from tpuc_ops import top
from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import listed
from tpuc_ops.convolution import exact_dtype, magnitude
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import clamped, is_integer, requantized, zero_point
from tpuc_ops.quant.arithmetic import saturate
from tpuc_ops.traits import RowByRow
from tpuc_ops.window import Window


@dataclass(frozen=True)
class Deconv(ReluFields, Op, RowByRow):
    """As `top.Deconv`; floats are computed in float32 and rounded to the result's width, integers are exact as in
    `tpu.Conv2D`.

    `weight: [oc / group, c, kh, kw]`. Integer operands must have zero point 0, because the inserted elements are 0.
    """

    name = "tpu.Deconv"
    slots = listed(3, kept=3)
    kernel_shape: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    group: I64 = 1
    dilations: I64Array = (1, 1)
    inserts: I64Array | None = None
    output_padding: I64Array | None = None
    with_bias: Bool = True
    quant_mode: RequantMode = "MultiplierShift"
    multiplier: I64Array = ()
    rshift: I64Array = ()
    round_mode: RoundMode = "HalfUp"
    dynweight_reorderd: Bool = False
    ginfo: Raw = None

    def window(self) -> Window:
        """Return the sliding window of the convolution that this op transposes."""
        return self._sums().window()

    def turned(self, weight: Array) -> Array:
        """Return the filter of the equivalent convolution: `[oc, c / group, kh, kw]`, with both kernel dimensions
        reversed.
        """
        return self._sums().turned(weight)

    def infer(self, operands: Types) -> Types | None:
        x, weight = operands[:2]
        if weight.dims[1:] != (x.dims[1], *self.kernel_shape):
            return None  # a filter in a chip's own order: the declared type decides
        (result,) = self._sums().infer(operands[:3])
        if is_integer(x) and not self.multiplier:
            return (result.with_element(ScalarType("i32")),)
        return (result,)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, weight, *bias = operands[:3]
        added = bias[0].reshape(-1, 1, 1) if bias and bias[0].size else None
        if is_integer(node.operand_types[0]):
            return [self._integer(node, x, weight, added)]
        result = self._sums().sums(as_float(x), as_float(weight))
        if added is not None:
            result = result + as_float(added)
        return [stored(self.activate(result), node.result_type)]

    def _integer(self, node: Node, x: Array, weight: Array, bias: Array | None) -> Array:
        if zero_point(node.operand_types[0]):
            raise ValueError("a transposed convolution of integers needs zero point 0")
        sums = self._sums()
        dtype = exact_dtype(magnitude(x), sums.turned(weight))
        acc = sums.sums(x.astype(dtype), weight.astype(dtype), whole=True).astype(np.int64)
        acc = saturate(acc if bias is None else acc + bias, np.int32)
        if self.multiplier:
            acc = requantized(acc, self.multiplier, self.rshift, self.quant_mode, self.round_mode, node.result_type)
        return clamped(acc, node.result_type, self.do_relu, self.relu_limit)

    def _sums(self) -> top.Deconv:
        return top.Deconv(
            kernel_shape=self.kernel_shape,
            strides=self.strides,
            pads=self.pads,
            group=self.group,
            dilations=self.dilations,
            inserts=self.inserts,
            output_padding=self.output_padding,
            do_relu=self.do_relu,
        )

    def flops(self, node: Node) -> int:
        return self._sums().flops(node)
