"""DDR traffic of an instruction."""

from __future__ import annotations

from math import prod

from tpuc.api import Instruction

from tpuc_bm1684x.isa import Fill, LinearCopy, MatrixCopy
from tpuc_bm1684x.isa.dma import TensorTransfer


def moved_bytes(instruction: Instruction) -> tuple[int, int]:
    """Bytes that an instruction reads from DDR and writes to DDR."""
    match instruction:
        case TensorTransfer():
            read, written = prod(instruction.shape), prod(instruction.result_shape())
        case Fill():
            written = prod(instruction.shape) * instruction.dtype.bytes
            return 0, written if instruction.destination >= instruction.target.ddr_base else 0
        case MatrixCopy():
            read = written = instruction.rows * instruction.columns
        case LinearCopy():
            read = written = instruction.count
        case _:
            return 0, 0
    size = instruction.dtype.bytes
    return (
        read * size if instruction.source >= instruction.target.ddr_base else 0,
        written * size if instruction.destination >= instruction.target.ddr_base else 0,
    )
