"""Bank conflicts between the operands of a command, with the cycles of `timing.compute`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tpuc.api import BankConflict, Instruction

from tpuc_bm1684x.isa import Gather, LaneTransfer, Requantize, TransferOp
from tpuc_bm1684x.timing.compute import BANK_FREE, compute_cycles


def bank_conflicts(instruction: Instruction) -> Sequence[BankConflict]:
    """Pairs of operands that should be in different banks of local memory, with the extra cycles when they share a
    bank.
    """
    match instruction:
        case Requantize():
            size = instruction.target.lane_bytes
            result, source = instruction.result.address % size, instruction.input.address % size
            return [_starts(result, source, compute_cycles(instruction))]
        case LaneTransfer(operation=TransferOp.COPY | TransferOp.BROADCAST):
            (lane, result), (other, source) = (
                divmod(at, instruction.target.lane_bytes) for at in (instruction.result, instruction.source)
            )
            return [_starts(result, source, compute_cycles(instruction))] if lane == other else ()
        case Gather() if instruction.operation not in BANK_FREE:
            regions = (*instruction.reads(), *instruction.writes())
            spans = [(region.start, region.end) for region in regions]
            longer = compute_cycles(instruction) // 2
            return [BankConflict(one, other, longer) for one, other in itertools.combinations(spans, 2)]
        case _:
            return ()


def _starts(one: int, other: int, cycles: int) -> BankConflict:
    return BankConflict((one, one + 1), (other, other + 1), cycles)
