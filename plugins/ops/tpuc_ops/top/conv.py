"""Convolution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tpuc.api import I64, Bool, I64Array, Node, Op, Str, TensorType, Types, Uniform

from tpuc_ops import quantized
from tpuc_ops.adjoints import image_gradient
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import listed
from tpuc_ops.convolution import as_images, convolve, insert_zeros
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.shapes import is_absent, show
from tpuc_ops.traits import Differentiable, ExtractsFeatures, RowByRow
from tpuc_ops.window import Pair, Window, pair, spatial


@dataclass(frozen=True)
class Conv(ReluFields, Op, quantized.Product, RowByRow, ExtractsFeatures, Differentiable):
    """Cross-correlation of `x: [n, c, h, w]` with `weight: [oc, c / group, kh, kw]`, plus `bias: [oc]`, then relu.

    `pads` are top, left, bottom, right; `inserts` are zeros inserted first between the rows and columns of `x`. One
    spatial dimension is supported too, `[n, c, w]` with a kernel of one, and three without `inserts`, `[n, c, d, h, w]`
    with a kernel of three; their `pads` list all before, then all after. The bias may have any shape with `oc`
    elements.
    """

    name = "top.Conv"
    slots = listed(3, kept=3)
    kernel_shape: I64Array
    strides: I64Array = (1, 1)
    pads: I64Array = (0, 0, 0, 0)
    group: I64 = 1
    dilations: I64Array = (1, 1)
    inserts: I64Array | None = None
    auto_pad: Str | None = None
    dynweight_reorderd: Bool = False
    weight_is_coeff: I64 = 1

    def window(self) -> Window:
        """Return the sliding window; raises ValueError if the attributes contradict each other."""
        return Window.of(self.kernel_shape, self.strides, self.pads, self.dilations, most=3)

    def infer(self, operands: Types) -> Types:
        x, weight = operands[:2]
        channels = check_filter(x, weight, self.kernel_shape, self.group)
        if len(operands) > 2 and not is_absent(operands[2]) and operands[2].size != channels:
            raise ValueError(f"bias {show(operands[2].dims)} does not fit {channels} output channels")
        window, size = self.window(), spatial(x.dims, len(self.kernel_shape))
        if self.inserts:
            if len(size) > 2:
                raise ValueError(
                    "inserts are zeros between rows and columns; a kernel of 3 dimensions cannot have them"
                )
            size = spread(pair(size), self.inserts)
        output = window.output(size)
        return (x.shape_only().with_shape((x.dims[0], channels, *output[-len(self.kernel_shape) :])),)

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        return not self.inserts and super().takes_integers(operands, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.conv(self, node, operands)]
        return [self.finished(node, self.sums(as_float(operands[0]), as_float(operands[1])), operands[2:])]

    def sums(self, x: Array, weight: Array, *, whole: bool = False) -> Array:
        """Return the sums of products only, for `x` of any float type; `whole` as for `convolve`."""
        x, weight = as_images(x), as_images(weight)
        if self.inserts:
            x = insert_zeros(x, *_pair(self.inserts))
        return convolve(x, weight, self.window(), self.group, whole=whole)

    def finished(self, node: Node, sums: Array, bias: Sequence[Array]) -> Array:
        """Return the result from sums, which are overwritten."""
        if bias and bias[0].size:
            sums += as_float(bias[0]).reshape(-1, *(1,) * (sums.ndim - 2))
        return self.activate(sums, in_place=True).reshape(node.result_type.dims)

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array | None] | None:
        if self.inserts:
            return None
        x, weight, *others = operands
        return [image_gradient(gradient, weight, x.shape, self.window(), self.group), None, *[None] * len(others)]

    def flops(self, node: Node) -> int:
        weight = node.operand_types[1].dims
        depth = weight[1] * self.window().taps
        has_bias = len(node.operand_types) > 2 and not is_absent(node.operand_types[2])
        return node.result_type.size * (2 * depth + has_bias + self.do_relu)


def _pair(values: Sequence[int]) -> Pair:
    return (values[0], values[1]) if len(values) == 2 else (0, values[0])


def spread(size: Pair, inserts: Sequence[int]) -> Pair:
    """Return rows and columns after zeros are inserted between them."""
    rows, columns = _pair(inserts)
    return (size[0] - 1) * (rows + 1) + 1, (size[1] - 1) * (columns + 1) + 1


def check_filter(x: TensorType, weight: TensorType, kernel: Sequence[int], group: int) -> int:
    """Return the output channels of a convolution; raises ValueError if the filter does not fit."""
    spatial(x.dims, len(kernel))
    shape, channels = weight.dims, x.dims[1]
    if len(shape) != len(kernel) + 2 or shape[2:] != tuple(kernel):
        raise ValueError(f"weight {show(shape)} does not end in kernel_shape {show(kernel)}")
    if group < 1 or channels % group or shape[0] % group:
        raise ValueError(f"{channels} input and {shape[0]} output channels are not divisible by group {group}")
    if shape[1] != channels // group:
        raise ValueError(
            f"weight {show(shape)} has {shape[1]} channels per filter; {channels} input channels in group {group} "
            f"need {channels // group}"
        )
    return shape[0]
