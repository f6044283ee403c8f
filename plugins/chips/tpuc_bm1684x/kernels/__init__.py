"""The kernel table of BM1684X: TPU op → instructions."""

from __future__ import annotations

from tpuc.api import KernelTable
from tpuc_ops.copies import AliasKernel
from tpuc_ops.tpu.active import Active
from tpuc_ops.tpu.add import Add
from tpuc_ops.tpu.add_const import AddConst
from tpuc_ops.tpu.arg import Arg
from tpuc_ops.tpu.bitwise import Bitwise
from tpuc_ops.tpu.cast import Cast
from tpuc_ops.tpu.clip import Clip
from tpuc_ops.tpu.compare import Compare
from tpuc_ops.tpu.compare_const import CompareConst
from tpuc_ops.tpu.concat import Concat
from tpuc_ops.tpu.conv2d import Conv2D
from tpuc_ops.tpu.deconv import Deconv
from tpuc_ops.tpu.div import Div
from tpuc_ops.tpu.gather_rows import GatherRows
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
from tpuc_ops.tpu.rank import Rank
from tpuc_ops.tpu.recurrent_steps import RecurrentSteps
from tpuc_ops.tpu.reduce import Reduce
from tpuc_ops.tpu.relu import Relu
from tpuc_ops.tpu.remainder import Remainder
from tpuc_ops.tpu.reshape import Reshape
from tpuc_ops.tpu.row_index import RowIndex
from tpuc_ops.tpu.scan import Scan
from tpuc_ops.tpu.scatter_rows import ScatterRows
from tpuc_ops.tpu.slice import Slice
from tpuc_ops.tpu.softmax import Softmax
from tpuc_ops.tpu.sub import Sub
from tpuc_ops.tpu.truncate import Truncate
from tpuc_ops.tpu.upsample import Upsample
from tpuc_ops.tpu.where import Where

from tpuc_bm1684x.kernels.activation import ReluKernel
from tpuc_bm1684x.kernels.active import ActiveKernel
from tpuc_bm1684x.kernels.arg_rows import AnyArgKernel
from tpuc_bm1684x.kernels.batched import AnyMatMulKernel
from tpuc_bm1684x.kernels.binary import DivKernel, ExtremeKernel, MulKernel, SumKernel
from tpuc_bm1684x.kernels.cast import CastKernel
from tpuc_bm1684x.kernels.deconv import DeconvKernel
from tpuc_bm1684x.kernels.depthwise import AnyConvKernel
from tpuc_bm1684x.kernels.logic import BitwiseKernel, ComparisonKernel, RowIndexKernel, WhereKernel
from tpuc_bm1684x.kernels.lut import LutKernel
from tpuc_bm1684x.kernels.pad import AnyPadKernel
from tpuc_bm1684x.kernels.pool import PoolKernel
from tpuc_bm1684x.kernels.rank import RankKernel
from tpuc_bm1684x.kernels.recurrent import RecurrentKernel
from tpuc_bm1684x.kernels.reduce_product import AnyReduceKernel
from tpuc_bm1684x.kernels.remainder import RemainderKernel
from tpuc_bm1684x.kernels.rows import GatherRowsKernel, ScatterRowsKernel
from tpuc_bm1684x.kernels.scan import ScanKernel
from tpuc_bm1684x.kernels.shape import ConcatKernel, PermuteKernel, SliceKernel
from tpuc_bm1684x.kernels.softmax import SoftmaxKernel
from tpuc_bm1684x.kernels.truncate import TruncateKernel
from tpuc_bm1684x.kernels.unary import (
    AddConstKernel,
    ClipKernel,
    LeakyReluKernel,
    MulConstKernel,
    MulShiftKernel,
    PReluKernel,
)
from tpuc_bm1684x.kernels.upsample import UpsampleKernel

TABLE = KernelTable("bm1684x", "tpu")
TABLE.runs(Conv2D)(AnyConvKernel)
TABLE.runs(Deconv)(DeconvKernel)
TABLE.runs(MatMul)(AnyMatMulKernel)
TABLE.runs(Pool2D)(PoolKernel)
TABLE.runs(RecurrentSteps)(RecurrentKernel)
TABLE.runs(Reduce)(AnyReduceKernel)
TABLE.runs(Add, Sub)(SumKernel)
TABLE.runs(Mul)(MulKernel)
TABLE.runs(Div)(DivKernel)
TABLE.runs(Max, Min)(ExtremeKernel)
TABLE.runs(AddConst)(AddConstKernel)
TABLE.runs(MulConst)(MulConstKernel)
TABLE.runs(MulShift)(MulShiftKernel)
TABLE.runs(Relu)(ReluKernel)
TABLE.runs(Clip)(ClipKernel)
TABLE.runs(LeakyRelu)(LeakyReluKernel)
TABLE.runs(PRelu)(PReluKernel)
TABLE.runs(Active)(ActiveKernel)
TABLE.runs(Lut)(LutKernel)
TABLE.runs(Cast)(CastKernel)
TABLE.runs(Softmax)(SoftmaxKernel)
TABLE.runs(Upsample)(UpsampleKernel)
TABLE.runs(Reshape)(AliasKernel)
TABLE.runs(Permute)(PermuteKernel)
TABLE.runs(Concat)(ConcatKernel)
TABLE.runs(Slice)(SliceKernel)
TABLE.runs(Pad)(AnyPadKernel)
TABLE.runs(Compare, CompareConst)(ComparisonKernel)
TABLE.runs(Where)(WhereKernel)
TABLE.runs(Bitwise)(BitwiseKernel)
TABLE.runs(RowIndex)(RowIndexKernel)
TABLE.runs(GatherRows)(GatherRowsKernel)
TABLE.runs(ScatterRows)(ScatterRowsKernel)
TABLE.runs(Arg)(AnyArgKernel)
TABLE.runs(Scan)(ScanKernel)
TABLE.runs(Rank)(RankKernel)
TABLE.runs(Remainder)(RemainderKernel)
TABLE.runs(Truncate)(TruncateKernel)
