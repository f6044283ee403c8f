"""Transposed convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import I64, Bool, I64Array, Node, Op, Types, Uniform, UniformPerAxis

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.convolution import as_images, convolve, insert_zeros
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.shapes import is_absent, show
from tpuc_ops.traits import Differentiable, ExtractsFeatures
from tpuc_ops.window import Pair, Window, spatial


@dataclass(frozen=True)
class Deconv(ReluFields, Op, quantized.Product, ExtractsFeatures, Differentiable):
    """Transposed convolution of `x: [n, c, h, w]` with `weight: [oc / group, c, kh, kw]`, plus bias, then relu: every
    element of x adds its multiple of the filter to the result, `strides` apart.

    `pads` crop the result at top, left, bottom, right; `output_padding` adds rows and columns at the end.
    """

    name = "top.Deconv"
    slots = listed(3, kept=3)
    kernel_shape: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    group: I64 = 1
    dilations: I64Array = (1, 1)
    inserts: I64Array | None = None
    output_padding: I64Array | None = None
    dynweight_reorderd: Bool = False

    def window(self) -> Window:
        """Return the sliding window of the convolution that this op transposes; raises ValueError if it is illegal."""
        if any(self.inserts or ()):
            raise ValueError("inserts are not supported in a transposed convolution")
        return Window.of(self.kernel_shape, self.strides, self.pads, self.dilations)

    def _extra(self) -> Pair:
        extra = self.output_padding or (0,) * len(self.kernel_shape)
        return (extra[0], extra[1]) if len(extra) == 2 else (0, extra[0])

    def infer(self, operands: Types) -> Types:
        x, weight = operands[:2]
        rank, window = len(self.kernel_shape), self.window()
        if weight.dims[2:] != self.kernel_shape or weight.dims[1] != x.dims[1] or x.dims[1] % self.group:
            raise ValueError(f"weight {show(weight.dims)} does not fit {x.dims[1]} channels in group {self.group}")
        channels = weight.dims[0] * self.group
        if len(operands) > 2 and not is_absent(operands[2]) and operands[2].size != channels:
            raise ValueError(f"bias {show(operands[2].dims)} does not fit {channels} output channels")
        size, extra = spatial(x.dims, rank), self._extra()
        output = [
            (size[axis] - 1) * window.strides[axis]
            + window.extents[axis]
            - window.pads[axis]
            - window.pads[axis + 2]
            + extra[axis]
            for axis in (0, 1)
        ]
        if min(output) < 1:
            raise ValueError(f"pads {list(self.pads)} leave nothing of the result")
        return (x.shape_only().with_shape((x.dims[0], channels, *output[-rank:])),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.deconv(self, node, operands)]
        return [self.finished(node, self.sums(as_float(operands[0]), as_float(operands[1])), operands[2:])]

    def of_outputs(self, filters: Uniform | UniformPerAxis) -> Uniform | UniformPerAxis:
        """Repeat the scales of the filter's first dimension for every group."""
        if isinstance(filters, Uniform) or self.group == 1:
            return filters
        scales, points = filters.scales * self.group, filters.zero_points * self.group
        return replace(filters, scales=scales, zero_points=points)

    def finished(self, node: Node, sums: Array, bias: Sequence[Array]) -> Array:
        """Return the result from sums."""
        if bias and bias[0].size:
            sums = sums + as_float(bias[0]).reshape(-1, 1, 1)
        return self.activate(sums).reshape(node.result_type.dims)

    def sums(self, x: Array, weight: Array, *, whole: bool = False) -> Array:
        """Return the sums of products only, for `x` of any float type; `whole` as for `convolve`."""
        x, weight = as_images(x), as_images(weight)
        window, extra = self.window(), self._extra()
        spread = insert_zeros(x, window.strides[0] - 1, window.strides[1] - 1)
        around = (window.extents[0] - 1, window.extents[1] - 1)
        full = Window(window.kernel, (1, 1), (*around, around[0] + extra[0], around[1] + extra[1]), window.dilations)
        result = convolve(spread, self.turned(weight), full, self.group, whole=whole)
        top, left, bottom, right = window.pads
        return result[:, :, top : result.shape[2] - bottom, left : result.shape[3] - right]

    def turned(self, weight: Array) -> Array:
        """Return the filter of the equivalent convolution: `[oc, c / group, kh, kw]`, with both kernel dimensions
        reversed.
        """
        outputs, channels, kh, kw = weight.shape
        groups = weight.reshape(outputs, self.group, channels // self.group, kh, kw).swapaxes(0, 1)
        return np.ascontiguousarray(groups.reshape(-1, channels // self.group, kh, kw)[:, :, ::-1, ::-1])

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array | None] | None:
        x, weight, *others = operands
        if self.group != 1 or gradient.ndim != 4:
            return None
        back = convolve(gradient, np.ascontiguousarray(weight.swapaxes(0, 1)), self.window())
        return [back, None, *[None] * len(others)] if back.shape == x.shape else None

    def flops(self, node: Node) -> int:
        depth = node.operand_types[0].dims[1] // self.group * self.window().taps
        has_bias = len(node.operand_types) > 2 and not is_absent(node.operand_types[2])
        return node.result_type.size * (2 * depth + has_bias + self.do_relu)
