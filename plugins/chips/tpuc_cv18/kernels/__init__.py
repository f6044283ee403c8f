"""Kernel tables: map each TPU op to instructions or to a function of the runtime."""

from __future__ import annotations

from tpuc.api import KernelTable
from tpuc_chip_parts.copies import AliasKernel
from tpuc_ops import tpu

from tpuc_cv18.isa import Target
from tpuc_cv18.kernels.activation import ClipKernel, ReluKernel
from tpuc_cv18.kernels.any_matmul import AnyMatMulKernel
from tpuc_cv18.kernels.byte_softmax import AnySoftmaxKernel
from tpuc_cv18.kernels.cast import CastKernel
from tpuc_cv18.kernels.constant_sums import AnyAddConstKernel
from tpuc_cv18.kernels.conv import AnyConvKernel
from tpuc_cv18.kernels.deconv import DeconvKernel
from tpuc_cv18.kernels.elementwise import DifferenceKernel, MaxKernel, MinKernel, MulKernel
from tpuc_cv18.kernels.half_tables import AnyLutKernel
from tpuc_cv18.kernels.pads import AnyPadKernel
from tpuc_cv18.kernels.pair_sums import AnySumKernel
from tpuc_cv18.kernels.pool import PoolKernel
from tpuc_cv18.kernels.powers import ActiveKernel, DivisionKernel
from tpuc_cv18.kernels.shape import AnyPermuteKernel, AnySliceKernel, ConcatKernel
from tpuc_cv18.kernels.unary import (
    LeakyReluKernel,
    MulConstKernel,
    MulShiftKernel,
    PReluKernel,
)
from tpuc_cv18.kernels.upsample import UpsampleKernel


def kernel_table(target: Target) -> KernelTable:
    """The kernel table of a chip."""
    table = KernelTable(target.name, "tpu")
    table.serves(
        {
            tpu.Conv2D: AnyConvKernel(target),
            tpu.Deconv: DeconvKernel(target),
            tpu.MatMul: AnyMatMulKernel(target),
            tpu.Pool2D: PoolKernel(target),
            tpu.Add: AnySumKernel(target),
            tpu.Sub: DifferenceKernel(target),
            tpu.Mul: MulKernel(target),
            tpu.Max: MaxKernel(target),
            tpu.Min: MinKernel(target),
            tpu.Div: DivisionKernel(target),
            tpu.AddConst: AnyAddConstKernel(target),
            tpu.MulConst: MulConstKernel(target),
            tpu.MulShift: MulShiftKernel(target),
            tpu.Relu: ReluKernel(target),
            tpu.Clip: ClipKernel(target),
            tpu.LeakyRelu: LeakyReluKernel(target),
            tpu.PReluOp: PReluKernel(target),
            tpu.Active: ActiveKernel(target),
            tpu.Lut: AnyLutKernel(target),
            tpu.Cast: CastKernel(target),
            tpu.Softmax: AnySoftmaxKernel(target),
            tpu.Upsample: UpsampleKernel(target),
            tpu.Reshape: AliasKernel(),
            tpu.Permute: AnyPermuteKernel(target),
            tpu.Concat: ConcatKernel(),
            tpu.Slice: AnySliceKernel(target),
            tpu.Pad: AnyPadKernel(target),
        }
    )
    return table
