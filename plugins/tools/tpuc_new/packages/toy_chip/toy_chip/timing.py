"""Cycles of single commands (manual, 4)."""

from __future__ import annotations

from tpuc.api import Instruction

from toy_chip import isa
from toy_chip.operands import VECTOR_BYTES, Operand

ISSUE_CYCLES = 4
TRANSFER_CYCLES = 24  # until the first byte comes back from DDR
DDR_BYTES_PER_CYCLE = 8
MOVE_BYTES_PER_CYCLE = 4  # each byte crosses the DDR port twice
CONV_INPUTS = 8  # input channels that a lane adds up in one cycle
SOFTMAX_CYCLES = 16  # per element


def cycles(instruction: Instruction) -> int:
    """How long a command takes by itself."""
    match instruction:
        case isa.Load(source=tensor) | isa.Store(result=tensor) | isa.FillDdr(result=tensor):
            return TRANSFER_CYCLES + -(-tensor.payload_bytes // DDR_BYTES_PER_CYCLE)
        case isa.Move(source=tensor):
            return TRANSFER_CYCLES + -(-tensor.payload_bytes // MOVE_BYTES_PER_CYCLE)
        case isa.LoadBlock():
            return TRANSFER_CYCLES + -(-instruction.lanes * instruction.bytes_per_lane // DDR_BYTES_PER_CYCLE)
        case isa.Broadcast():
            return TRANSFER_CYCLES + -(-instruction.bytes_per_lane // DDR_BYTES_PER_CYCLE)
        case isa.Conv(result=result, input=source):
            per_output = -(-source.shape[1] // CONV_INPUTS) * instruction.window.taps
            return ISSUE_CYCLES + _elements_per_lane(result) * per_output
        case isa.MaxPool(result=result, window=window) | isa.AveragePool(result=result, window=window):
            return ISSUE_CYCLES + _vectors(result) * window.taps
        case isa.Softmax(result=result):
            return ISSUE_CYCLES + _elements_per_lane(result) * SOFTMAX_CYCLES
        case isa.Add(result=result):
            return ISSUE_CYCLES + 2 * _vectors(result)
        case isa.Requantize(input=source):
            return ISSUE_CYCLES + _vectors(source)
        case isa.Fill(result=result) | isa.Clamp(result=result):
            return ISSUE_CYCLES + _vectors(result)
        case isa.Quantize(input=wide) | isa.Dequantize(result=wide):
            return ISSUE_CYCLES + _vectors(wide)
        case _:
            raise AssertionError(f"no timing for {type(instruction).__name__}")


def _elements_per_lane(operand: Operand) -> int:
    n, _, h, w = operand.shape
    return n * operand.slots * h * w


def _vectors(operand: Operand) -> int:
    return -(-operand.bytes_per_lane // VECTOR_BYTES)
