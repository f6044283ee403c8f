"""Single instructions of each chip: what the vendor's functional model computes, and bytes in both directions."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import Engine, IllegalCommand
from tpuc_cv18.isa import (
    ChannelBlock,
    ChannelSum,
    Compression,
    Depthwise,
    DType,
    Layout,
    Operand,
    Scalar,
    Target,
    TensorCopy,
    gmem,
)
from tpuc_cv18.isa.compression import compress
from tpuc_cv18.isa.geometry import split_gmem
from tpuc_cv18.isa.stream import decode
from tpuc_cv18.machine import Machine

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import BASES, GMEM_BYTES
from tests.chips.cv18xx import NAMES, TARGETS
from tests.families import each

GOLDENS = Path(__file__).parent / "goldens"
INT8 = DType.INT8
CASES = [pytest.param(target, name, id=f"{target.name}-{name}") for target in TARGETS for name in generators(target)]


def _programs(target: Target) -> dict[str, Any]:
    return json.loads(gzip.decompress((GOLDENS / target.name / "programs.json.gz").read_bytes()))


PROGRAMS = {target: _programs(target) for target in TARGETS}


def _place(machine: Machine, numbers: list[int]) -> NDArray[Any]:
    """A view of the bytes that a golden names."""
    in_gmem, start, end, first, last = numbers
    if not in_gmem:
        return machine.lmem[first:last, start:end]
    base, offset = split_gmem(start)
    return machine.gmem[base][offset : offset + end - start]


@each(("target", "name"), CASES)
def test_the_functional_model_gives_the_same_bytes(target: Target, name: str) -> None:
    machine = Machine(target)
    machine.gmem[:BASES] = [np.zeros(GMEM_BYTES, np.uint8) for _ in range(BASES)]
    program = PROGRAMS[target][name]
    for numbers, before, _ in program["regions"]:
        place = _place(machine, numbers)
        place[...] = np.frombuffer(bytes.fromhex(before), np.uint8).reshape(place.shape)
    instruction: Any = decode(Engine(program["engine"]), bytes.fromhex(program["command"]), target).instruction
    instruction.check()
    instruction.execute(machine)
    for numbers, before, after in program["regions"]:
        assert _place(machine, numbers).tobytes().hex() == (after or before), numbers


@each(("target", "name"), CASES)
def test_instructions_come_back_from_their_bytes(target: Target, name: str) -> None:
    for seed in range(3):
        instruction: Any = make_case(name, seed, target).instruction
        data = instruction.encode(7, 3)
        again: Any = decode(instruction.engine, data, target).instruction
        assert again.encode(7, 3) == data
        assert type(again) is type(instruction)
        assert not [row for row in again.leftover if not again.ignores(row[0])]
        assert list(again.reads()) == list(instruction.reads())
        assert list(again.writes()) == list(instruction.writes())


@each("target", TARGETS, ids=NAMES)
def test_addresses_in_gmem_begin_at_0(target: Target) -> None:
    copy = TensorCopy(source=gmem(3, 0x40), destination=0x80, shape=(1, 1, 1, 8), dtype=INT8).on(target)
    fields = target.layouts(Engine.DMA).unpack(copy.encode(1, 0))
    assert (fields["src_base_addr_low"], fields["src_base_addr_high"], fields["src_base_reg_sel"]) == (0x40, 0, 3)
    assert decode(Engine.DMA, copy.encode(1, 0), target).instruction == copy


def _depthwise(target: Target) -> Depthwise:
    """What is dilated and requantized per channel."""
    return Depthwise(
        result=Operand(0x2000, INT8),
        result_shape=(1, 1, 1, 4),
        input=Operand(0, INT8),
        input_size=(1, 8),
        weight=Scalar.of(1, INT8),
        kernel=(1, 3),
        dilation=(1, 2),
        block=ChannelBlock(0x1000, has_bias=False),
    ).on(target)


@each("target", TARGETS, ids=NAMES)
def test_what_the_chips_lack_is_refused(target: Target) -> None:
    total = ChannelSum(result=Operand(0x100, INT8, Layout.COMPACT), input=Operand(0, INT8), input_shape=(1, 2, 4, 4))
    with pytest.raises(IllegalCommand, match=f"{target.name} has none; use average pooling"):
        total.on(target).check()
    with pytest.raises(IllegalCommand, match="it has no field 'tens_mdsum', which would be 1"):
        total.on(target).encode(1, 0)
    with pytest.raises(IllegalCommand, match=f"{target.name} ignores the dilation when there is a block"):
        _depthwise(target).check()
    replace(_depthwise(target), dilation=(1, 1), result_shape=(1, 1, 1, 6)).check()


CODES = {
    0x1F: (0, 126, 127, 128, 0, 127, 127, 126, 128, 128, 128, 127, 128, 126, 125, 126),  # 47 bits, as with a plane
    0x29: (0, 129, 129, 127, 129, 127, 126, 128, 127, 0, 127, 127, 0, 127, 127, 128),  # 45 bits with a plane, else 46
    0xBC: (0, 0, 111, 90, 0, 169, 43, 176, 179, 125, 74, 127, 189, 211, 147, 0),  # 128 bits, as plain
    0xE0: (0, 0, 202, 73, 0, 0, 0, 14, 0, 143, 0, 0, 96, 234, 198, 177),  # 129 bits, plain 128
}
"""Exponents by the code that the functional models choose where codes take nearly as many bits."""


@each("code", CODES)
def test_the_bits_that_count_zeros_belong_to_the_length_of_a_code(code: int) -> None:
    stream = compress(np.array(CODES[code], np.uint16) << np.uint16(7), Compression(bias=127, zero_guard=True))
    assert stream[16] == code
