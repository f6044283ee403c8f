"""The kernel table of CV183x: TPU op → instructions, or functions of the runtime."""

from __future__ import annotations

from tpuc.api import KernelTable
from tpuc_chip_parts.copies import AliasKernel
from tpuc_ops import tpu

from tpuc_cv183x.kernels.activation import ClipKernel, ReluKernel
from tpuc_cv183x.kernels.batched import AnyMatMulKernel
from tpuc_cv183x.kernels.cast import CastKernel
from tpuc_cv183x.kernels.deconv import DeconvKernel
from tpuc_cv183x.kernels.depthwise import AnyConvKernel
from tpuc_cv183x.kernels.elementwise import DifferenceKernel, MaxKernel, MinKernel, MulKernel, SumKernel
from tpuc_cv183x.kernels.half_tables import AnyLutKernel
from tpuc_cv183x.kernels.pads import AnyPadKernel
from tpuc_cv183x.kernels.pool import PoolKernel
from tpuc_cv183x.kernels.powers import ActiveKernel, DivisionKernel
from tpuc_cv183x.kernels.shape import AnyPermuteKernel, ConcatKernel, SliceKernel
from tpuc_cv183x.kernels.softmax import SoftmaxRoutine
from tpuc_cv183x.kernels.unary import (
    AddConstKernel,
    LeakyReluKernel,
    MulConstKernel,
    MulShiftKernel,
    PReluKernel,
)
from tpuc_cv183x.kernels.upsample import UpsampleKernel

TABLE = KernelTable("cv183x", "tpu")
TABLE.runs(tpu.Conv2D)(AnyConvKernel)
TABLE.runs(tpu.Deconv)(DeconvKernel)
TABLE.runs(tpu.MatMul)(AnyMatMulKernel)
TABLE.runs(tpu.Pool2D)(PoolKernel)
TABLE.runs(tpu.Add)(SumKernel)
TABLE.runs(tpu.Sub)(DifferenceKernel)
TABLE.runs(tpu.Mul)(MulKernel)
TABLE.runs(tpu.Max)(MaxKernel)
TABLE.runs(tpu.Min)(MinKernel)
TABLE.runs(tpu.Div)(DivisionKernel)
TABLE.runs(tpu.AddConst)(AddConstKernel)
TABLE.runs(tpu.MulConst)(MulConstKernel)
TABLE.runs(tpu.MulShift)(MulShiftKernel)
TABLE.runs(tpu.Relu)(ReluKernel)
TABLE.runs(tpu.Clip)(ClipKernel)
TABLE.runs(tpu.LeakyRelu)(LeakyReluKernel)
TABLE.runs(tpu.PRelu)(PReluKernel)
TABLE.runs(tpu.Active)(ActiveKernel)
TABLE.runs(tpu.Lut)(AnyLutKernel)
TABLE.runs(tpu.Cast)(CastKernel)
TABLE.runs(tpu.Softmax)(SoftmaxRoutine)
TABLE.runs(tpu.Upsample)(UpsampleKernel)
TABLE.runs(tpu.Reshape)(AliasKernel)
TABLE.runs(tpu.Permute)(AnyPermuteKernel)
TABLE.runs(tpu.Concat)(ConcatKernel)
TABLE.runs(tpu.Slice)(SliceKernel)
TABLE.runs(tpu.Pad)(AnyPadKernel)
