"""The kernel table of CV183x: TPU op → instructions, or functions of the runtime."""

from __future__ import annotations

from tpuc.api import KernelTable
from tpuc_ops.copies import AliasKernel
from tpuc_ops.tpu.active import Active
from tpuc_ops.tpu.add import Add
from tpuc_ops.tpu.add_const import AddConst
from tpuc_ops.tpu.cast import Cast
from tpuc_ops.tpu.clip import Clip
from tpuc_ops.tpu.concat import Concat
from tpuc_ops.tpu.conv2d import Conv2D
from tpuc_ops.tpu.deconv import Deconv
from tpuc_ops.tpu.div import Div
from tpuc_ops.tpu.leaky_relu import LeakyRelu
from tpuc_ops.tpu.lut import Lut
from tpuc_ops.tpu.matmul import MatMul
from tpuc_ops.tpu.max import Max
from tpuc_ops.tpu.min import Min
from tpuc_ops.tpu.mul import Mul
from tpuc_ops.tpu.mul_const import MulConst
from tpuc_ops.tpu.mul_shift import MulShift
from tpuc_ops.tpu.pad import Pad
from tpuc_ops.tpu.permute import Permute
from tpuc_ops.tpu.pool2d import Pool2D
from tpuc_ops.tpu.prelu import PRelu
from tpuc_ops.tpu.relu import Relu
from tpuc_ops.tpu.reshape import Reshape
from tpuc_ops.tpu.slice import Slice
from tpuc_ops.tpu.softmax import Softmax
from tpuc_ops.tpu.sub import Sub
from tpuc_ops.tpu.upsample import Upsample

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
TABLE.runs(Conv2D)(AnyConvKernel)
TABLE.runs(Deconv)(DeconvKernel)
TABLE.runs(MatMul)(AnyMatMulKernel)
TABLE.runs(Pool2D)(PoolKernel)
TABLE.runs(Add)(SumKernel)
TABLE.runs(Sub)(DifferenceKernel)
TABLE.runs(Mul)(MulKernel)
TABLE.runs(Max)(MaxKernel)
TABLE.runs(Min)(MinKernel)
TABLE.runs(Div)(DivisionKernel)
TABLE.runs(AddConst)(AddConstKernel)
TABLE.runs(MulConst)(MulConstKernel)
TABLE.runs(MulShift)(MulShiftKernel)
TABLE.runs(Relu)(ReluKernel)
TABLE.runs(Clip)(ClipKernel)
TABLE.runs(LeakyRelu)(LeakyReluKernel)
TABLE.runs(PRelu)(PReluKernel)
TABLE.runs(Active)(ActiveKernel)
TABLE.runs(Lut)(AnyLutKernel)
TABLE.runs(Cast)(CastKernel)
TABLE.runs(Softmax)(SoftmaxRoutine)
TABLE.runs(Upsample)(UpsampleKernel)
TABLE.runs(Reshape)(AliasKernel)
TABLE.runs(Permute)(AnyPermuteKernel)
TABLE.runs(Concat)(ConcatKernel)
TABLE.runs(Slice)(SliceKernel)
TABLE.runs(Pad)(AnyPadKernel)
