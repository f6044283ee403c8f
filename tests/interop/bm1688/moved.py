"""Random instructions of BM1684X moved to CV186x: its lanes, its addresses, its registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from tpuc.api import Instruction
from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa.command import DmaInstruction
from tpuc_bm1684x.isa.target import BM1684X
from tpuc_bm1684x.isa.types import Operand
from tpuc_bm1684x.machine import Machine
from tpuc_bm1688.target import ACTIVATIONS, CV186X, tagged

from tests.chips.bm1684x.draw import Case

_PLAIN = ("result", "source", "table")
"""Attributes of compute commands that are addresses."""
_DMA = ("source", "destination", "index")


def local(address: int) -> int:
    """The same offset, in a lane that exists."""
    lane, offset = divmod(address, BM1684X.lane_bytes)
    return lane % CV186X.lanes * CV186X.lane_bytes + offset


def anywhere(address: int) -> int:
    """A DMA address: local memory, or the memory of activations."""
    if BM1684X.in_lmem(address):
        return local(address - BM1684X.lmem_base)
    return tagged(ACTIVATIONS) + address - BM1684X.ddr_base


def moved(instruction: Any) -> Sequence[Instruction]:
    """What the assembler records for the instruction: itself, and what it needs in registers before."""
    changes: dict[str, Any] = {}
    is_dma = isinstance(instruction, DmaInstruction)
    for field in fields(instruction):
        value = getattr(instruction, field.name)
        if isinstance(value, Operand):
            changes[field.name] = replace(value, address=local(value.address))
        elif isinstance(value, int) and field.name in (_DMA if is_dma else _PLAIN):
            changes[field.name] = anywhere(value) if is_dma else local(value)
    assembler = Bm1684xAssembler(CV186X)
    assembler.record(replace(instruction, **changes))
    return assembler.instructions


def write(machine: Machine, case: Case) -> None:
    """Put the operands of a case where the moved instruction may read some of them."""
    for place, values in case.writes:
        machine.write(anywhere(place.address), place.shape, place.strides, place.dtype, values)
