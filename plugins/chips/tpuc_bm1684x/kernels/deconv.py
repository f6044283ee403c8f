"""Transposed convolution: a convolution with zeros between the input's rows and columns, and the filter turned."""

from __future__ import annotations

from typing import Any

from tpuc.api import KernelChoice, Node, TileKernel
from tpuc_chip_parts.tiles import TurnedFilter
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.kernels.common import MAX_WINDOW_STEP, zero_point_refusal
from tpuc_bm1684x.kernels.grouped import GroupedConvKernel
from tpuc_bm1684x.kernels.product import Product, ProductKernel


def deconvolution_refusal(node: Node[tpu.Deconv]) -> str | None:
    """What no kind of transposed convolution can do."""
    op = node.op
    window = op.window()
    if max(window.dilations) > MAX_WINDOW_STEP + 1:
        return f"dilation at most {MAX_WINDOW_STEP + 1}, this one is {max(window.dilations)}"
    extra = op.output_padding or (0, 0)
    for extent, stride, added, first, last in zip(
        window.extents, window.strides, extra, window.pads[:2], window.pads[2:], strict=True
    ):
        if extent < stride:
            return f"a window of at least the stride, this one is {extent} for {stride}"
        if extent > MAX_WINDOW_STEP + 1:
            return f"a window of at most {MAX_WINDOW_STEP + 1} places, this one has {extent}"
        if max(first, last) >= extent or added > last:
            return "padding below the window's extent, and at least the output padding"
    if op.multiplier and op.quant_mode != "MultiplierShift":
        return f"only quant_mode MultiplierShift, this one is {op.quant_mode}"
    return zero_point_refusal(node.operand_types[:1])


class _Transposed(TurnedFilter):
    """What both kinds do: the node as a convolution of what has zeros inserted."""

    def refuse(self, node: Node) -> str | None:
        return deconvolution_refusal(node)

    def product(self, node: Node) -> Product:
        return Product.of_transposed(node, rounding=Rounding(node.op.round_mode))


class FullDeconvKernel(_Transposed, ProductKernel):
    """Without groups."""


class GroupedDeconvKernel(_Transposed, GroupedConvKernel):
    """With groups, as the grouped convolution."""


class DeconvKernel(KernelChoice[tpu.Deconv]):
    """Full or grouped."""

    def __init__(self) -> None:
        self._full, self._grouped = FullDeconvKernel(), GroupedDeconvKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        return self._full if node.op.group == 1 else self._grouped
