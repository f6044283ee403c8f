"""Transposed convolution, as a convolution with zeros inserted between rows and columns and a flipped filter."""

from __future__ import annotations

from typing import Any

from tpuc.api import KernelChoice, Node, TileKernel
from tpuc_chip_parts.tiles import TurnedFilter, transposed_refusal
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.common import MAX_WINDOW_STEP, zero_point_refusal
from tpuc_bm1684x.kernels.depthwise import DepthwiseConvKernel
from tpuc_bm1684x.kernels.folded_rows import FoldedRowsKernel
from tpuc_bm1684x.kernels.grouped import GroupedConvKernel
from tpuc_bm1684x.kernels.product import Product, ProductKernel


def deconvolution_refusal(node: Node[tpu.Deconv]) -> str | None:
    """The refusal common to all transposed convolutions, None if the node is supported."""
    refused = transposed_refusal(node, MAX_WINDOW_STEP)
    if refused is not None:
        return refused
    op = node.op
    longest = max(op.window().extents)
    if longest > MAX_WINDOW_STEP + 1:
        return f"a window of at most {MAX_WINDOW_STEP + 1} places, this one has {longest}"
    if op.multiplier and op.quant_mode != "MultiplierShift":
        return f"only quant_mode MultiplierShift, this one is {op.quant_mode}"
    return zero_point_refusal(node.operand_types[:1])


class _Transposed(TurnedFilter):
    """Base of transposed convolutions: expresses the node as a convolution of the zero-inserted input."""

    def refuse(self, node: Node) -> str | None:
        return deconvolution_refusal(node)

    def product(self, node: Node) -> Product:
        return Product.of_transposed(node, rounding=Rounding(node.op.round_mode))


class FullDeconvKernel(_Transposed, ProductKernel):
    """Transposed convolution without groups."""


class FoldedDeconvKernel(FoldedRowsKernel, FullDeconvKernel):
    """Transposed convolution without groups: no zeros between folded rows."""


class GroupedDeconvKernel(_Transposed, GroupedConvKernel):
    """Grouped transposed convolution."""


class DepthwiseDeconvKernel(_Transposed, DepthwiseConvKernel):
    """Depthwise transposed convolution, with one filter per channel."""


class DeconvKernel(KernelChoice[tpu.Deconv]):
    """Chooses the full, folded-rows, depthwise or grouped kernel."""

    def __init__(self, target: Target = BM1684X) -> None:
        self._full, self._depthwise = FullDeconvKernel(target), DepthwiseDeconvKernel(target)
        self._grouped, self._folded = GroupedDeconvKernel(target), FoldedDeconvKernel(target, self._full)

    def kernel(self, node: Node) -> TileKernel[Any, Bm1684xAssembler]:
        if node.op.group == 1:
            return self._full if self._folded.fold(node) is None else self._folded
        channels = (node.operand_types[0].dims[1], node.result_type.dims[1])
        is_narrow = node.operand_types[1].storage.name in ("f16", "bf16")
        return self._depthwise if channels == (node.op.group, node.op.group) and not is_narrow else self._grouped
