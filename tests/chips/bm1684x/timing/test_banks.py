"""Which operands had better lie in different banks, by what the cost of a command says, and that plans heed it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from tpuc.api import Engine
from tpuc_bm1684x.container import BModel
from tpuc_bm1684x.isa import LaneTransfer, Requantize
from tpuc_bm1684x.isa.stream import decode_stream
from tpuc_bm1684x.timing import cycles
from tpuc_bm1684x.timing.banks import bank_conflicts
from tpuc_driver.session import Session

from tests.chips.bm1684x.draw import Draw
from tests.chips.bm1684x.timing.compute_commands import requantize, transfer
from tests.models.networks import Network

BANK_BYTES = 0x4000


def test_a_conflict_costs_what_the_command_takes_longer_within_one_bank() -> None:
    draw = Draw(np.random.default_rng(0))
    told = 0
    for number in range(400):
        command = (requantize, transfer)[number % 2](draw)
        if isinstance(command, Requantize):
            apart = replace(command, input=replace(command.input, address=command.result.address ^ BANK_BYTES))
            beside = replace(command, input=replace(command.input, address=command.result.address))
        else:
            assert isinstance(command, LaneTransfer)
            apart = replace(command, source=command.result ^ BANK_BYTES)
            beside = replace(command, source=command.result)
            if not bank_conflicts(apart):
                assert cycles(apart) == cycles(beside)
                continue
        (conflict,) = bank_conflicts(apart)
        assert conflict.cycles == cycles(beside) - cycles(apart)
        told += 1
    assert told > 200


def test_no_command_of_a_small_network_waits_for_a_bank(network: Callable[[str], Network]) -> None:
    digits = network("digits")
    session = Session(chip="bm1684x", quantize="int8")
    (net,) = BModel.from_bytes(session.build(digits.module, digits.table).data).nets
    commands = [
        command.instruction
        for group in net.stages[0].groups
        for command in decode_stream(Engine.COMPUTE, group.tiu).commands
    ]
    asked = [command for command in commands if bank_conflicts(command)]
    assert any(isinstance(command, Requantize) for command in asked)
    for command in asked:
        for conflict in bank_conflicts(command):
            banks = [
                {*range(start // BANK_BYTES, (end - 1) // BANK_BYTES + 1)}
                for start, end in (conflict.one, conflict.other)
            ]
            assert not banks[0] & banks[1]
