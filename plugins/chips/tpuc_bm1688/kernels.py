"""Kernel tables of the second generation: kernels of BM1684X, for its lanes."""

from __future__ import annotations

from tpuc.api import KernelTable
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.kernels.activation import ReluKernel
from tpuc_bm1684x.kernels.active import ActiveKernel
from tpuc_bm1684x.kernels.binary import DivKernel, ExtremeKernel, MulKernel, SumKernel
from tpuc_bm1684x.kernels.cast import CastKernel
from tpuc_bm1684x.kernels.deconv import DeconvKernel
from tpuc_bm1684x.kernels.depthwise import AnyConvKernel
from tpuc_bm1684x.kernels.lut import LutKernel
from tpuc_bm1684x.kernels.matrices import AnyMatMulKernel
from tpuc_bm1684x.kernels.pad import AnyPadKernel
from tpuc_bm1684x.kernels.pool import PoolKernel
from tpuc_bm1684x.kernels.product import MatMulKernel
from tpuc_bm1684x.kernels.reduce import ReduceKernel
from tpuc_bm1684x.kernels.shape import ConcatKernel, PermuteKernel, SliceKernel
from tpuc_bm1684x.kernels.softmax import SoftmaxKernel
from tpuc_bm1684x.kernels.unary import (
    AddConstKernel,
    ClipKernel,
    LeakyReluKernel,
    MulConstKernel,
    MulShiftKernel,
    PReluKernel,
)
from tpuc_bm1684x.kernels.upsample import UpsampleKernel
from tpuc_chip_parts.copies import AliasKernel
from tpuc_ops import tpu

from tpuc_bm1688.target import CV186X


def kernel_table(target: Target) -> KernelTable:
    """The kernel table of a chip."""
    table, sums, extremes = KernelTable(target.name, "tpu"), SumKernel(target), ExtremeKernel(target)
    table.serves(
        {
            tpu.Conv2D: AnyConvKernel(target),
            tpu.Deconv: DeconvKernel(target),
            tpu.MatMul: AnyMatMulKernel(target, MatMulKernel(target)),
            tpu.Pool2D: PoolKernel(target),
            tpu.Add: sums,
            tpu.Sub: sums,
            tpu.Mul: MulKernel(target),
            tpu.Div: DivKernel(target),
            tpu.Max: extremes,
            tpu.Min: extremes,
            tpu.AddConst: AddConstKernel(target),
            tpu.MulConst: MulConstKernel(target),
            tpu.MulShift: MulShiftKernel(target),
            tpu.Relu: ReluKernel(target),
            tpu.Clip: ClipKernel(target),
            tpu.LeakyRelu: LeakyReluKernel(target),
            tpu.PReluOp: PReluKernel(target),
            tpu.Active: ActiveKernel(target),
            tpu.Lut: LutKernel(target),
            tpu.Upsample: UpsampleKernel(target),
            tpu.Reduce: ReduceKernel(target),
            tpu.Cast: CastKernel(target),
            tpu.Softmax: SoftmaxKernel(target),
            tpu.Reshape: AliasKernel(),
            tpu.Permute: PermuteKernel(target),
            tpu.Concat: ConcatKernel(target),
            tpu.Slice: SliceKernel(target),
            tpu.Pad: AnyPadKernel(target),
        }
    )
    return table


TABLE = kernel_table(CV186X)
