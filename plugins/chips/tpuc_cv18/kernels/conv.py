"""Choose the kernel of a convolution."""

from __future__ import annotations

from typing import Any

from tpuc.api import KernelChoice, Node, TileKernel
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Target
from tpuc_cv18.kernels.depthwise import DepthwiseConvKernel
from tpuc_cv18.kernels.product import ConvKernel
from tpuc_cv18.kernels.wide_depthwise import WideDepthwiseConvKernel
from tpuc_cv18.kernels.wide_product import WideConvKernel


class AnyConvKernel(KernelChoice[tpu.Conv2D]):
    """Chooses the full or depthwise kernel; the lowering expands other groups."""

    def __init__(self, target: Target) -> None:
        self._full, self._wide = ConvKernel(target), WideConvKernel(target)
        self._depthwise, self._wide_depthwise = DepthwiseConvKernel(target), WideDepthwiseConvKernel(target)
        self._other = GroupedConvKernel()

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler]:
        if node.op.group == 1:
            return self._wide if node.op.wide else self._full
        channels = (node.operand_types[0].dims[1], node.result_type.dims[1])
        if channels != (node.op.group, node.op.group):
            return self._other
        return self._wide_depthwise if node.op.wide else self._depthwise


class GroupedConvKernel(TileKernel[tpu.Conv2D, Cv18Assembler]):
    """Refuses groups of several channels, which the chip does not support."""

    def refuse(self, node: Node) -> str | None:
        return "groups of several channels have no kernel; lowering writes them as one group with zeros between"
