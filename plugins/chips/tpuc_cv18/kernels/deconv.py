"""Transposed convolution, as a convolution with zeros inserted between rows and columns and a flipped filter."""

from __future__ import annotations

from typing import Any

from tpuc.api import KernelChoice, Node, TileKernel
from tpuc_chip_parts.tiles import Product, TurnedFilter, transposed_refusal
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Target
from tpuc_cv18.kernels.common import LaneKernel, element_refusal
from tpuc_cv18.kernels.depthwise import DepthwiseConvKernel
from tpuc_cv18.kernels.product import ProductKernel, requantize_refusal
from tpuc_cv18.operands import MAX_STEP


def deconvolution_refusal(node: Node[tpu.Deconv], most_zeros: int) -> str | None:
    """The refusal common to all transposed convolutions, None if the node is supported. At most `most_zeros` may be
    inserted.
    """
    refused = transposed_refusal(node, most_zeros)
    if refused is not None:
        return refused
    op, window = node.op, node.op.window()
    ends = [last - added for last, added in zip(window.pads[2:], op.output_padding or (0, 0), strict=True)]
    for extent, stride, first, last in zip(window.extents, window.strides, window.pads[:2], ends, strict=True):
        if extent - 1 - min(first, last) > MAX_STEP or stride - 1 > most_zeros:
            return f"a window of at most {MAX_STEP + 1} places beyond its padding, this one has {extent}"
    return element_refusal(Node(op, node.operand_types[:1], node.result_types, node.name)) or requantize_refusal(
        node, op.multiplier, op.rshift
    )


class _Transposed(TurnedFilter, LaneKernel[tpu.Deconv]):
    """Base of transposed convolutions: expresses the node as a convolution of the zero-inserted input."""

    def refuse(self, node: Node) -> str | None:
        return deconvolution_refusal(node, self.target.largest_insert)

    def product(self, node: Node) -> Product:
        return Product.of_transposed(node)


class FullDeconvKernel(_Transposed, ProductKernel):
    """Transposed convolution without groups."""


class DepthwiseDeconvKernel(_Transposed, DepthwiseConvKernel):
    """Depthwise transposed convolution; filters are flipped when they are packed."""

    def loads_filters(self, node: Node) -> bool:
        return False


class GroupedDeconvKernel(TileKernel[tpu.Deconv, Cv18Assembler]):
    """Refuses groups of several channels, which the chip does not support."""

    def refuse(self, node: Node) -> str | None:
        return "groups of several channels have no kernel; lowering writes them as one group with zeros between"


class DeconvKernel(KernelChoice[tpu.Deconv]):
    """Chooses the full or depthwise kernel; the lowering expands other groups."""

    def __init__(self, target: Target) -> None:
        self._full, self._depthwise = FullDeconvKernel(target), DepthwiseDeconvKernel(target)
        self._other = GroupedDeconvKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler]:
        if node.op.group == 1:
            return self._full
        channels = (node.operand_types[0].dims[1], node.result_type.dims[1])
        return self._depthwise if channels == (node.op.group, node.op.group) else self._other
