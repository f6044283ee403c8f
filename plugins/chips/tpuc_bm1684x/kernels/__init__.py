"""Kernel tables of the family: map each TPU op to instructions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tpuc.api import KernelTable, Op
from tpuc_chip_parts.copies import AliasKernel
from tpuc_ops import tpu

from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.activation import ReluKernel
from tpuc_bm1684x.kernels.active import ActiveKernel
from tpuc_bm1684x.kernels.arg_rows import AnyArgKernel
from tpuc_bm1684x.kernels.best_places import BestPlacesKernel
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


def kernel_table(target: Target) -> KernelTable:
    """The kernel table of a chip of the family."""
    table = KernelTable(target.name, "tpu")
    for ops, kernel in _KERNELS.items():
        cell = kernel(target)
        table.serves(dict.fromkeys(ops if isinstance(ops, tuple) else (ops,), cell))
    return table


_KERNELS: Mapping[type[Op] | tuple[type[Op], ...], Callable[[Target], Any]] = {
    tpu.Conv2D: AnyConvKernel,
    tpu.Deconv: DeconvKernel,
    tpu.MatMul: AnyMatMulKernel,
    tpu.A16MatMul: WeightOnlyKernel,
    tpu.Pool2D: PoolKernel,
    tpu.RecurrentSteps: RecurrentKernel,
    tpu.Reduce: AnyReduceKernel,
    (tpu.Add, tpu.Sub): SumKernel,
    tpu.Mul: MulKernel,
    tpu.Div: DivKernel,
    (tpu.Max, tpu.Min): ExtremeKernel,
    tpu.AddConst: AddConstKernel,
    tpu.MulConst: MulConstKernel,
    tpu.MulShift: MulShiftKernel,
    tpu.Relu: ReluKernel,
    tpu.Clip: ClipKernel,
    tpu.LeakyRelu: LeakyReluKernel,
    tpu.PReluOp: PReluKernel,
    tpu.Active: ActiveKernel,
    tpu.Lut: LutKernel,
    tpu.Cast: CastKernel,
    tpu.Softmax: SoftmaxKernel,
    tpu.Upsample: UpsampleKernel,
    tpu.Reshape: lambda _: AliasKernel(),
    tpu.Permute: PermuteKernel,
    tpu.Concat: ConcatKernel,
    tpu.Slice: SliceKernel,
    tpu.Pad: AnyPadKernel,
    (tpu.Compare, tpu.CompareConst): ComparisonKernel,
    tpu.Where: WhereKernel,
    tpu.Bitwise: BitwiseKernel,
    tpu.RowIndex: RowIndexKernel,
    tpu.GatherRows: lambda _: GatherRowsKernel(),
    tpu.ScatterRows: lambda _: ScatterRowsKernel(),
    tpu.Arg: AnyArgKernel,
    tpu.Scan: ScanKernel,
    tpu.BestPlaces: BestPlacesKernel,
    tpu.Rank: RankKernel,
    tpu.Remainder: RemainderKernel,
    tpu.Truncate: TruncateKernel,
}
"""The kernels by ops, each made for a chip."""
TABLE = kernel_table(BM1684X)
