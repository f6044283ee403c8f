"""Deformable convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import I64, Bool, I64Array, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.products import matmul
from tpuc_ops.sampling import bilinear
from tpuc_ops.shapes import is_absent, show
from tpuc_ops.top.conv import check_filter
from tpuc_ops.window import Window


@dataclass(frozen=True)
class DeformConv2D(Op):
    """A convolution whose taps are moved by offsets and sampled bilinearly.

    Operands: x `[n, c, h, w]`, filter `[oc, c / group, kh, kw]`, offsets `[n, deform_group * kh * kw * 2, oh, ow]` (row
    then column of each tap), with `use_mask` factors `[n, deform_group * kh * kw, oh, ow]`, and a bias; the last two
    may be absent. x is 0 outside its borders.
    """

    name = "top.DeformConv2D"
    slots = listed(5, kept=5)
    kernel_shape: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    dilations: I64Array = (1, 1)
    group: I64 = 1
    deform_group: I64 = 1
    use_mask: Bool = False

    def window(self) -> Window:
        """Return the sliding window over rows and columns; raises ValueError if the attributes contradict each
        other.
        """
        return Window.of(self.kernel_shape, self.strides, self.pads, self.dilations)

    def infer(self, operands: Types) -> Types:
        x, weight, offset = operands[:3]
        channels, window = check_filter(x, weight, self.kernel_shape, self.group), self.window()
        result = (x.dims[0], channels, *window.output(x.dims[2:]))
        wanted = (x.dims[0], self.deform_group * window.taps * 2, *result[2:])
        if offset.dims != wanted or x.dims[1] % self.deform_group:
            raise ValueError(f"offsets {show(offset.dims)} should be {show(wanted)}")
        if self.use_mask and is_absent(operands[3]):
            raise ValueError("use_mask needs a mask")
        return (x.shape_only().with_shape(result),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, weight, offset, mask, bias = (as_float(operand) for operand in (*operands, *[np.zeros(0)] * 2)[:5])
        n, c = x.shape[:2]
        groups, taps, (oh, ow) = self.deform_group, self.window().taps, node.result_type.dims[2:]
        moves = offset.reshape(n, groups, taps, 2, oh, ow)
        rows, columns = self._places(oh, ow)
        parts = x.reshape(n, groups, c // groups, *x.shape[2:])
        sampled = bilinear(parts, rows + moves[:, :, :, 0], columns + moves[:, :, :, 1])  # [n, g, c/g, taps, oh, ow]
        if mask.size:
            sampled = sampled * mask.reshape(n, groups, 1, taps, oh, ow)
        columns_of = sampled.reshape(n, self.group, c // self.group * taps, oh * ow)
        matrices = weight.reshape(self.group, weight.shape[0] // self.group, -1)
        result = matmul(matrices, columns_of).reshape(n, weight.shape[0], oh, ow)
        return [result + bias.reshape(-1, 1, 1) if bias.size else result]

    def _places(self, oh: int, ow: int) -> tuple[Array, Array]:
        """Return row and column of every tap without offsets, in elements of the operand: `[taps, oh, ow]`."""
        window = self.window()
        tap_rows, tap_columns = np.divmod(np.arange(window.taps), window.kernel[1])
        rows = np.arange(oh)[:, None] * window.strides[0] - window.pads[0]
        columns = np.arange(ow) * window.strides[1] - window.pads[1]
        shape = (window.taps, oh, ow)
        return (
            np.broadcast_to(rows + (tap_rows * window.dilations[0])[:, None, None], shape),
            np.broadcast_to(columns + (tap_columns * window.dilations[1])[:, None, None], shape),
        )

    def flops(self, node: Node) -> int:
        weight = node.operand_types[1].dims
        return node.result_type.size * weight[1] * self.window().taps * 10
