"""Random commands of CV186x: those of BM1684X with this chip's lanes, banks and addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

import numpy as np
from tpuc.api import IllegalCommand, Instruction
from tpuc_bm1684x import isa
from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa.command import DmaInstruction
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.isa.target import BM1684X
from tpuc_bm1684x.isa.types import Operand
from tpuc_bm1688.target import ACTIVATIONS, CV186X, tagged

from tests.chips.bm1684x.draw import Draw
from tests.chips.bm1684x.timing import compute_commands, dma_commands, window_commands

KINDS = dma_commands.KINDS + compute_commands.KINDS + window_commands.KINDS
LANE_PARTS = 2
"""Banks and lanes of BM1684X are so many times as large."""
_PLAIN, _DMA = ("result", "source", "table"), ("source", "destination", "index")
LONGEST_FACTOR = 2
"""Bytes of an operand of MM2."""
_DDR = (1 << 24) - 1


def commands(count: int, seed: int) -> list[Instruction]:
    """Of every kind in turn, those that this chip has."""
    draw = Draw(np.random.default_rng(seed))
    return list(_legal(KINDS[number % len(KINDS)](draw) for number in range(count)))


def _legal(drawn: Iterable[Instruction]) -> Iterator[Instruction]:
    for instruction in drawn:
        try:
            found = _moved(instruction)
            identify(found.engine, int.from_bytes(found.encode(1, 0)[:16], "little"), CV186X.tables)
        except IllegalCommand:
            continue  # an operation that it lacks, or a zero point per column
        if not _is_refused(found):
            yield found


def _is_refused(command: Instruction) -> bool:
    """True for products that the simulators refuse, whose cost is not modeled."""
    match command:
        case isa.MatMul(left=left):
            return left.dtype.bytes > LONGEST_FACTOR
        case isa.SplitMatMul(shift=shift):
            return isinstance(shift, Operand)
        case _:
            return False


def _local(address: int) -> int:
    lane, offset = divmod(address, BM1684X.lane_bytes)
    unit = BM1684X.eu_bytes // LANE_PARTS
    return lane % CV186X.lanes * CV186X.lane_bytes + offset // (unit * LANE_PARTS) * unit


def _anywhere(address: int) -> int:
    if BM1684X.in_lmem(address):
        return _local(address - BM1684X.lmem_base)
    return tagged(ACTIVATIONS) + (address & _DDR)


def _moved(drawn: Any) -> Instruction:
    changes: dict[str, Any] = {}
    is_dma = isinstance(drawn, DmaInstruction)
    for field in fields(drawn):
        value = getattr(drawn, field.name)
        if isinstance(value, Operand):
            changes[field.name] = replace(value, address=_local(value.address))
        elif type(value) is int and field.name in (_DMA if is_dma else _PLAIN):
            changes[field.name] = _anywhere(value) if is_dma else _local(value)
    match drawn:
        case isa.ChannelBroadcast():
            changes["channels"] = min(drawn.channels, CV186X.lanes - changes["destination"] // CV186X.lane_bytes)
        case isa.LaneTransfer():
            n, c, h, w = drawn.shape
            if drawn.source >= BM1684X.smem_base:
                changes["source"] = CV186X.smem_base + drawn.source - BM1684X.smem_base
            if drawn.operation in (isa.TransferOp.BROADCAST, isa.TransferOp.STATIC_BROADCAST):
                changes["shape"] = (n, min(c, CV186X.lanes - changes["result"] // CV186X.lane_bytes), h, w)
        case isa.MatrixCopy():
            vector = CV186X.vector(drawn.dtype.bytes)
            plane = -(-drawn.width // vector) * vector
            changes["local_strides"] = (-(-drawn.pieces // CV186X.lanes) * plane, plane)
        case _:
            pass
    assembler = Bm1684xAssembler(CV186X)
    assembler.record(replace(drawn, **changes))
    return assembler.instructions[-1]
