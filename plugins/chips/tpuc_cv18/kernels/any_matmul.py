"""Choose the kernel of a matrix product."""

from __future__ import annotations

from typing import Any

from tpuc.api import KernelChoice, Node, TileKernel
from tpuc_ops import tpu

from tpuc_cv18.assembler import Cv18Assembler
from tpuc_cv18.isa import Target
from tpuc_cv18.kernels.batched import BatchedMatMulKernel
from tpuc_cv18.kernels.byte_rows import ByteRowsKernel
from tpuc_cv18.kernels.float_rows import FloatRowsKernel
from tpuc_cv18.kernels.product import MatMulKernel
from tpuc_cv18.kernels.rows import RowsKernel


class AnyMatMulKernel(KernelChoice[tpu.MatMul]):
    """Chooses a kernel: a two-dimensional right operand is constant, others are computed."""

    def __init__(self, target: Target) -> None:
        self._few_rows = (RowsKernel(target), ByteRowsKernel(target), FloatRowsKernel(target))
        self._constant, self._computed = MatMulKernel(target), BatchedMatMulKernel(target)

    def kernel(self, node: Node) -> TileKernel[Any, Cv18Assembler]:
        if len(node.operand_types[1].dims) > 2:
            return self._computed
        return next((kernel for kernel in self._few_rows if kernel.serves(node)), self._constant)
