"""Kernel table of BM1684X: maps each TPU op to instructions."""

from __future__ import annotations

from tpuc.api import KernelTable
from tpuc_chip_parts.copies import AliasKernel
from tpuc_ops import tpu

from tpuc_bm1684x.kernels.activation import ReluKernel
from tpuc_bm1684x.kernels.active import ActiveKernel
from tpuc_bm1684x.kernels.arg_rows import AnyArgKernel
from tpuc_bm1684x.kernels.binary import DivKernel, ExtremeKernel, MulKernel, SumKernel
from tpuc_bm1684x.kernels.cast import CastKernel
from tpuc_bm1684x.kernels.deconv import DeconvKernel
from tpuc_bm1684x.kernels.depthwise import AnyConvKernel
from tpuc_bm1684x.kernels.logic import BitwiseKernel, ComparisonKernel, RowIndexKernel, WhereKernel
from tpuc_bm1684x.kernels.lut import LutKernel
from tpuc_bm1684x.kernels.matrices import AnyMatMulKernel
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
from tpuc_bm1684x.kernels.weight_products import WeightOnlyKernel

TABLE = KernelTable("bm1684x", "tpu")
TABLE.runs(tpu.Conv2D)(AnyConvKernel)
TABLE.runs(tpu.Deconv)(DeconvKernel)
TABLE.runs(tpu.MatMul)(AnyMatMulKernel)
TABLE.runs(tpu.A16MatMul)(WeightOnlyKernel)
TABLE.runs(tpu.Pool2D)(PoolKernel)
TABLE.runs(tpu.RecurrentSteps)(RecurrentKernel)
TABLE.runs(tpu.Reduce)(AnyReduceKernel)
TABLE.runs(tpu.Add, tpu.Sub)(SumKernel)
TABLE.runs(tpu.Mul)(MulKernel)
TABLE.runs(tpu.Div)(DivKernel)
TABLE.runs(tpu.Max, tpu.Min)(ExtremeKernel)
TABLE.runs(tpu.AddConst)(AddConstKernel)
TABLE.runs(tpu.MulConst)(MulConstKernel)
TABLE.runs(tpu.MulShift)(MulShiftKernel)
TABLE.runs(tpu.Relu)(ReluKernel)
TABLE.runs(tpu.Clip)(ClipKernel)
TABLE.runs(tpu.LeakyRelu)(LeakyReluKernel)
TABLE.runs(tpu.PReluOp)(PReluKernel)
TABLE.runs(tpu.Active)(ActiveKernel)
TABLE.runs(tpu.Lut)(LutKernel)
TABLE.runs(tpu.Cast)(CastKernel)
TABLE.runs(tpu.Softmax)(SoftmaxKernel)
TABLE.runs(tpu.Upsample)(UpsampleKernel)
TABLE.runs(tpu.Reshape)(AliasKernel)
TABLE.runs(tpu.Permute)(PermuteKernel)
TABLE.runs(tpu.Concat)(ConcatKernel)
TABLE.runs(tpu.Slice)(SliceKernel)
TABLE.runs(tpu.Pad)(AnyPadKernel)
TABLE.runs(tpu.Compare, tpu.CompareConst)(ComparisonKernel)
TABLE.runs(tpu.Where)(WhereKernel)
TABLE.runs(tpu.Bitwise)(BitwiseKernel)
TABLE.runs(tpu.RowIndex)(RowIndexKernel)
TABLE.runs(tpu.GatherRows)(GatherRowsKernel)
TABLE.runs(tpu.ScatterRows)(ScatterRowsKernel)
TABLE.runs(tpu.Arg)(AnyArgKernel)
TABLE.runs(tpu.Scan)(ScanKernel)
TABLE.runs(tpu.Rank)(RankKernel)
TABLE.runs(tpu.Remainder)(RemainderKernel)
TABLE.runs(tpu.Truncate)(TruncateKernel)
