"""The kernel table of BM1684X: TPU op → instructions."""

from __future__ import annotations

from tpuc.api import KernelTable
from tpuc_ops.tpu.add import Add
from tpuc_ops.tpu.cast import Cast
from tpuc_ops.tpu.conv2d import Conv2D
from tpuc_ops.tpu.matmul import MatMul
from tpuc_ops.tpu.permute import Permute
from tpuc_ops.tpu.pool2d import Pool2D
from tpuc_ops.tpu.relu import Relu
from tpuc_ops.tpu.reshape import Reshape
from tpuc_ops.tpu.softmax import Softmax

from tpuc_bm1684x.kernels.activation import ReluKernel
from tpuc_bm1684x.kernels.add import AddKernel
from tpuc_bm1684x.kernels.cast import CastKernel
from tpuc_bm1684x.kernels.pool import PoolKernel
from tpuc_bm1684x.kernels.product import ConvKernel, MatMulKernel
from tpuc_bm1684x.kernels.shape import AliasKernel, PermuteKernel
from tpuc_bm1684x.kernels.softmax import SoftmaxKernel

TABLE = KernelTable("bm1684x", "tpu")
TABLE.runs(Conv2D)(ConvKernel)
TABLE.runs(MatMul)(MatMulKernel)
TABLE.runs(Pool2D)(PoolKernel)
TABLE.runs(Add)(AddKernel)
TABLE.runs(Relu)(ReluKernel)
TABLE.runs(Cast)(CastKernel)
TABLE.runs(Softmax)(SoftmaxKernel)
TABLE.runs(Reshape)(AliasKernel)
TABLE.runs(Permute)(PermuteKernel)
