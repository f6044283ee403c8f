"""Instructions of the family: one frozen dataclass per operation, all fields by keyword.

Compute operands: `Operand(address, dtype, layout=ALIGNED, plane_step=0)` with `address` = lane * 0x8000 + offset
(`lane_address`), dtype INT8, UINT8, INT16, UINT16 (two byte planes, `plane_step` apart) or BF16, layout
`Layout.ALIGNED`, `COMPACT`, `CHANNEL` or explicit byte strides (n, c per group of channels, h, w; 0 broadcasts).
`Scalar.of(value, dtype)` is an immediate. Right operands, weights, biases and blocks start in the same pair of lanes as
the result. DMA addresses: local ones as above; GMEM as `gmem(base register, offset)`. Shapes are (n, c, h, w), pads
(top, left, bottom, right), pairs (height, width), DMA strides (n, c, h) in bytes. Every class also takes `layer`;
`target`, the chip, is set by assembler and decoder.

compute
    Conv          result, result_shape, input, input_shape (c, h, w), weight (COMPACT); kernel, stride, pads, dilation,
                  insert, insert_last, pad_value, block: ChannelBlock(address, has_bias) | bias (address), bias_signed,
                  shift, relu, partial: PartialSum OFF | FIRST | MIDDLE | LAST, double
    Depthwise     result, result_shape, input, input_size, weight (ALIGNED or Scalar); as Conv without partial, double
    MaxPool       result, result_shape, input, input_size, kernel; stride, pads, insert, insert_last, pad_value
    MinPool       the same, where the chip has it
    AveragePool   the same with factor (byte, or bf16 bits), shift
    MatMul        rows, depth, result, result_split (channels, width), left, left_split, right; bias (address),
                  bias_signed, multiplier, shift, accumulate, left_shift, relu, partial; `split_columns`
    Arithmetic    operation: ArithmeticOp MUL | MAC | ADD | SUB | MAX | MIN | SHIFT | AND | OR | XOR | COPY |
                  GREATER_EQUAL, shape,
                  result, left; right (Operand or Scalar), shift, left_shift, multiplier, relu, floor
    Lookup        shape, result, input, table (address)
    ChannelSum    result (COMPACT), input, input_shape; shift

DMA
    TensorCopy    source, destination, shape, dtype; source_strides, destination_strides (None: dense in GMEM,
                  ALIGNED in local memory), destination_shape, destination_dtype, toward_zero, function: MoveFunction,
                  compression
    TransposeNC, TransposeCW, RotateChannels   source, destination, shape, dtype; strides
    MatrixCopy    source, destination, rows, columns, dtype, split (channels, width); row_stride, local_strides,
                  transpose, compression
    Fill          destination, shape, dtype, value (bits); strides
    LinearCopy    source, destination, size

Every instruction has `reads()`, `writes()` (regions), `check()` (raises IllegalCommand), `encode(number, wait)`
(logical form), `execute(machine)` and `describe()`. `encode_cmdbuf` writes the section of a file.
"""

from __future__ import annotations

from tpuc_cv18.isa.arithmetic import Arithmetic, ArithmeticOp
from tpuc_cv18.isa.command import ComputeInstruction, Cv18Instruction, DmaInstruction
from tpuc_cv18.isa.compression import Compression
from tpuc_cv18.isa.conv import Conv
from tpuc_cv18.isa.depthwise import Depthwise
from tpuc_cv18.isa.dma import Direction, MoveFunction, RotateChannels, TensorCopy, TransposeCW, TransposeNC
from tpuc_cv18.isa.dma_special import Fill, LinearCopy, MatrixCopy
from tpuc_cv18.isa.finish import ChannelBlock, PartialSum
from tpuc_cv18.isa.geometry import gmem, lane_address
from tpuc_cv18.isa.lookup import ChannelSum, Lookup
from tpuc_cv18.isa.matmul import MatMul, split_columns
from tpuc_cv18.isa.pool import AveragePool, MaxPool, MinPool
from tpuc_cv18.isa.stream import Segment, decode_cmdbuf, decode_dmabuf, encode_cmdbuf, encode_dmabuf
from tpuc_cv18.isa.tables import read_layouts
from tpuc_cv18.isa.target import Profile, Target
from tpuc_cv18.isa.types import DType, Layout, Operand, Scalar, natural_strides

__all__ = [
    "Arithmetic",
    "ArithmeticOp",
    "AveragePool",
    "ChannelBlock",
    "ChannelSum",
    "Compression",
    "ComputeInstruction",
    "Conv",
    "Cv18Instruction",
    "DType",
    "Depthwise",
    "Direction",
    "DmaInstruction",
    "Fill",
    "Layout",
    "LinearCopy",
    "Lookup",
    "MatMul",
    "MatrixCopy",
    "MaxPool",
    "MinPool",
    "MoveFunction",
    "Operand",
    "PartialSum",
    "Profile",
    "RotateChannels",
    "Scalar",
    "Segment",
    "Target",
    "TensorCopy",
    "TransposeCW",
    "TransposeNC",
    "decode_cmdbuf",
    "decode_dmabuf",
    "encode_cmdbuf",
    "encode_dmabuf",
    "gmem",
    "lane_address",
    "natural_strides",
    "read_layouts",
    "split_columns",
]
