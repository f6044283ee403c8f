"""Instructions of the BM1684X: one frozen dataclass per command family, all fields by keyword.

Addresses of compute commands are `lane * 0x40000 + offset` (`lane_address`); DMA commands take DMA addresses: local
memory at `lmem(address)`, DDR from 0x1_0000_0000. Shapes are (n, c, h, w), pads (top, left, bottom, right), pairs
(height, width). `Operand(address, dtype, layout)` is a tensor in local memory: layout `Layout.ALIGNED` (default),
`COMPACT`, `TABLE`, or explicit strides (n, c, h, w) in elements, c per group of 64 channels, 0 broadcasts.
`Scalar.of(value, dtype)` is an immediate. "Source" below means either of them.

compute
    Conv             result, result_shape, input, input_shape (c, h, w), weight: Source; operation NORMAL | REQUANTIZE |
                     REQUANTIZE_RELU, kernel, stride, pads, dilation, insert, pad_mode, rotate, bias, kernel_zero_point,
                     pad_value, shift, accumulate
    PoolOrDepthwise  operation DEPTHWISE | AVERAGE | DEPTHWISE_RELU | MAX, result, shape, input, input_size, kernel;
                     stride, pads, dilation, insert, pad_mode, rotate, weight, bias, pad_value, shift, rounding
    MatMul           operation NN | NT | TT, rows, columns, depth, result, left, right; zero_point, accumulate
    SplitMatMul      operation, rows, left_pieces, left_width, left_last, right_pieces, right_width, result, left,
                     right; bias, shift, fused_shift, rounding, transpose_left, accumulate
    Arithmetic       operation (ArithmeticOp), shape, result, left; right, third (shift or selected value), rounding,
                     iterations (DIV)
    Requantize       operation REQUANTIZE | FLOAT_REQUANTIZE | DEQUANTIZE | FLOAT_DEQUANTIZE, shape, result, input;
                     table or multiplier, shift (positive left), zero_point, scale, offset; rounding, source_rounding
    SpecialFunction  operation POLYNOMIAL | EXPONENT | RSQRT, shape, result, input; terms, table
    ScaleBias        shape, result, input, scale; bias, operation MULTIPLY_ADD | SQUARE_SUM | SQUARE_DIFFERENCE
    CompareSelect    operation, shape, result, left, right, when_true, when_false; second
    LaneTransfer     operation TRANSPOSE_CW | TRANSPOSE_WC | COPY | BROADCAST | STATIC_BROADCAST | STATIC_DISTRIBUTE,
                     shape, dtype, result, source (addresses)
    Gather           shape, result, table, table_size, index, index_size; operation GATHER | LANE_GATHER
    GatherLines      shape, dtype, result, table, table_rows, index
    EndCompute

DMA
    TensorCopy       source, destination, shape, dtype; source_strides, destination_strides (both or none),
                     destination_shape (reshape), mask (lanes)
    TransposeNC, TransposeCW   the same without destination_shape
    ChannelBroadcast the same with channels: (n, 1, h, w) to that many lanes
    Fill             destination, shape, dtype, value (bits); strides, mask
    MatrixCopy       source, destination, rows, columns, row_stride, width, pieces, local_strides (n, c), dtype;
                     transpose, mask
    LinearCopy       source, destination, count, dtype; mask
    RowGather, RowScatter   source, destination, index with _size (c, h, w; index c, h) and _strides (c, h), dtype;
                     constant
    EndDma

RawCommand           any other command of the tables: encodes, decodes and prints

Every instruction has `reads()`, `writes()` (regions), `check()` (raises IllegalCommand), `encode(number, wait)`,
`execute(machine)` and `describe()`. `leftover` keeps raw fields of decoded commands that no attribute represents.
"""

from __future__ import annotations

from tpuc_bm1684x.isa.arithmetic import Arithmetic, ArithmeticOp
from tpuc_bm1684x.isa.command import Bm1684xInstruction, ComputeInstruction, DmaInstruction
from tpuc_bm1684x.isa.conv import Conv, ConvOp
from tpuc_bm1684x.isa.dma import ChannelBroadcast, Fill, TensorCopy, TransposeCW, TransposeNC
from tpuc_bm1684x.isa.dma_matrix import LinearCopy, MatrixCopy
from tpuc_bm1684x.isa.dma_rows import RowGather, RowScatter
from tpuc_bm1684x.isa.gather import Gather, GatherLines, GatherLinesOp, GatherOp
from tpuc_bm1684x.isa.geometry import lane_address, lmem
from tpuc_bm1684x.isa.lanes import LaneTransfer, TransferOp
from tpuc_bm1684x.isa.matmul import MatMul, MatMulOp, SplitMatMul, SplitMatMulOp
from tpuc_bm1684x.isa.pool import PoolOp, PoolOrDepthwise
from tpuc_bm1684x.isa.requantize import Requantize, RequantizeOp
from tpuc_bm1684x.isa.select import CompareOp, CompareSelect
from tpuc_bm1684x.isa.special import ScaleBias, ScaleOp, SpecialFunction, SpecialOp
from tpuc_bm1684x.isa.stream import decode_stream, encode_stream
from tpuc_bm1684x.isa.system import EndCompute, EndDma, RawCommand
from tpuc_bm1684x.isa.types import DType, Layout, Operand, Scalar
from tpuc_bm1684x.isa.windows import PadMode

Requantise, RequantiseOp = Requantize, RequantizeOp
"""Names until 0.3, which timing tools of others still state."""

__all__ = [
    "Arithmetic",
    "ArithmeticOp",
    "Bm1684xInstruction",
    "ChannelBroadcast",
    "CompareOp",
    "CompareSelect",
    "ComputeInstruction",
    "Conv",
    "ConvOp",
    "DType",
    "DmaInstruction",
    "EndCompute",
    "EndDma",
    "Fill",
    "Gather",
    "GatherLines",
    "GatherLinesOp",
    "GatherOp",
    "LaneTransfer",
    "Layout",
    "LinearCopy",
    "MatMul",
    "MatMulOp",
    "MatrixCopy",
    "Operand",
    "PadMode",
    "PoolOp",
    "PoolOrDepthwise",
    "RawCommand",
    "Requantize",
    "RequantizeOp",
    "RowGather",
    "RowScatter",
    "Scalar",
    "ScaleBias",
    "ScaleOp",
    "SpecialFunction",
    "SpecialOp",
    "SplitMatMul",
    "SplitMatMulOp",
    "TensorCopy",
    "TransferOp",
    "TransposeCW",
    "TransposeNC",
    "decode_stream",
    "encode_stream",
    "lane_address",
    "lmem",
]
