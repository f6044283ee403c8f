"""Single instructions: results of the vendor's functional model, encodings that come back, refusals."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Command, CorruptFile, Engine, IllegalCommand, derive_waits
from tpuc.api.encoding import BitLayout
from tpuc_cv18 import isa
from tpuc_cv18.isa import (
    Arithmetic,
    ArithmeticOp,
    ChannelBlock,
    Conv,
    DType,
    Layout,
    Lookup,
    MaxPool,
    Operand,
    PartialSum,
    Scalar,
    TensorCopy,
    gmem,
    lane_address,
    split_columns,
)
from tpuc_cv18.isa.geometry import split_gmem
from tpuc_cv18.isa.stream import decode, decode_cmdbuf, encode_cmdbuf
from tpuc_cv18.isa.tables import END, from_storage, to_storage
from tpuc_cv18.machine import Machine
from tpuc_cv183x.chip import CV183X

from tests.chips.cv18.cases import generators, make_case
from tests.chips.cv18.draw import BASES, GMEM_BYTES, Array
from tests.examples import examples
from tests.families import each

PROGRAMS: dict[str, Any] = json.loads(
    gzip.decompress((Path(__file__).parent / "goldens" / "programs.json.gz").read_bytes())
)
INT8, BF16 = DType.INT8, DType.BF16


def place(machine: Machine, numbers: list[int]) -> Array:
    """A view of the bytes that a golden names."""
    in_gmem, start, end, first, last = numbers
    if not in_gmem:
        return machine.lmem[first:last, start:end]
    base, offset = split_gmem(start)
    return machine.gmem[base][offset : offset + end - start]


def test_there_is_a_golden_for_every_operation() -> None:
    assert len(PROGRAMS) >= 40
    assert set(PROGRAMS) == set(generators(CV183X))


@each("name", PROGRAMS)
def test_the_functional_model_gives_the_same_bytes(name: str) -> None:
    machine = Machine(CV183X)
    machine.gmem[:BASES] = [np.zeros(GMEM_BYTES, np.uint8) for _ in range(BASES)]
    program = PROGRAMS[name]
    for numbers, before, _ in program["regions"]:
        target = place(machine, numbers)
        target[...] = np.frombuffer(bytes.fromhex(before), np.uint8).reshape(target.shape)
    command = decode(Engine(program["engine"]), bytes.fromhex(program["command"]), CV183X)
    command.instruction.check()  # type: ignore[attr-defined]
    command.instruction.execute(machine)
    for numbers, before, after in program["regions"]:
        assert place(machine, numbers).tobytes().hex() == (after or before), numbers


@each("name", generators(CV183X))
def test_instructions_come_back_from_their_bytes(name: str) -> None:
    for seed in range(5):
        instruction: Any = make_case(name, seed, CV183X).instruction
        data = instruction.encode(7, 3)
        command = decode(instruction.engine, data, CV183X)
        again: Any = command.instruction
        assert (command.number, command.wait) == (7, 3)
        assert again.encode(7, 3) == data
        assert type(again) is type(instruction)
        assert not [row for row in again.leftover if not again.ignores(row[0])]
        assert list(again.reads()) == list(instruction.reads())
        assert list(again.writes()) == list(instruction.writes())
        assert again.describe().startswith(instruction.mnemonic())


@given(st.data())
@examples(300)
def test_random_descriptors_keep_every_bit(data: st.DataObject) -> None:
    engine = data.draw(st.sampled_from(Engine))
    table = CV183X.layouts(engine)
    raw = bytearray(data.draw(st.binary(min_size=table.length_bytes, max_size=table.length_bytes)))
    word = int.from_bytes(raw, "little")
    for name, value in {**dict.fromkeys(END[engine], 0)}.items():
        offset, width = table.fields[name]
        word = word & ~(((1 << width) - 1) << offset) | value << offset
    logical = word.to_bytes(table.length_bytes, "little")
    try:
        command = decode(engine, logical, CV183X)
    except IllegalCommand:
        return
    if command.number:
        assert command.instruction.encode(command.number, command.wait) == logical


def _elsewhere(engine: Engine) -> BitLayout:
    """The fields of a descriptor in the opposite order, without the one for two channels per cycle."""
    table = CV183X.layouts(engine)
    places: dict[str, tuple[int, int]] = {}
    bit = 0
    for name, (_, width) in reversed(table.fields.items()):
        if name != "double_conv":
            places[name] = (bit, width)
            bit += width
    return BitLayout("other descriptor", 128, places, table.resets)


ELSEWHERE = replace(CV183X, name="elsewhere", layouts=_elsewhere)


def test_a_family_with_another_layout_has_the_same_instructions() -> None:
    instructions: list[Any] = [make_case(name, 2, CV183X).instruction for name in generators(CV183X)]
    single = [one for one in instructions if not getattr(one, "double", False)]
    commands = derive_waits(single)
    section = encode_cmdbuf(commands, ELSEWHERE)
    (segment,) = decode_cmdbuf(section, ELSEWHERE)
    plain = encode_cmdbuf(commands, CV183X)
    assert section != plain
    assert encode_cmdbuf(segment.order, CV183X) == plain


def test_a_family_without_a_field_refuses_what_needs_it() -> None:
    command = Command(small_conv(input_shape=(4, 4, 4), double=True), 1, 0)
    with pytest.raises(IllegalCommand, match="other descriptor: it has no field 'double_conv', which would be 1"):
        encode_cmdbuf([command], ELSEWHERE)


def test_the_storage_form_comes_back() -> None:
    logical = make_case("conv.int", 0, CV183X).instruction.encode(1, 0)
    stored, layout = to_storage(logical), CV183X.layouts(Engine.COMPUTE)
    assert stored[:16] != logical[:16]
    assert from_storage(stored, layout) == logical
    with pytest.raises(CorruptFile, match="compute descriptor: chunk 0 is numbered 6; the file is damaged"):
        from_storage(logical[96:] + logical[16:96] + stored[:16], layout)


def small_conv(**changes: Any) -> Conv:
    fields: dict[str, Any] = {
        "result": Operand(0x1000, INT8),
        "result_shape": (1, 8, 4, 4),
        "input": Operand(0, INT8),
        "input_shape": (4, 4, 4),
        "weight": Operand(0x800, INT8, Layout.COMPACT),
        "target": CV183X,
    }
    return Conv(**{**fields, **changes})


def add(**changes: Any) -> Arithmetic:
    wide = Operand(0, DType.INT16)
    fields: dict[str, Any] = {"operation": ArithmeticOp.ADD, "shape": (1, 4, 1, 4), "result": wide, "left": wide}
    fields["target"] = CV183X
    return Arithmetic(**{**fields, "right": Operand(0x100, DType.INT16), **changes})


@each(
    ("instruction", "message"),
    [
        (small_conv(input=Operand(8, INT8)), "conv: input address 0x8 must be a multiple of 16 bytes; move or pad it"),
        (
            small_conv(result_shape=(1, 8, 3, 4)),
            "conv: output height 3, but 4 padded input elements give 4; correct the pads",
        ),
        (small_conv(double=True, input_shape=(3, 4, 4)), "conv: double needs int8, an even number of input channels"),
        (
            small_conv(result=Operand(0x1000, DType.UINT8)),
            "conv: an unsigned result of signed operands needs relu; set it, or use int8",
        ),
        (
            small_conv(partial=PartialSum.FIRST, block=ChannelBlock(0x2000)),
            "conv: partial sums take neither bias nor requantization; set them in the last step",
        ),
        (
            small_conv(result=Operand(lane_address(4, 0x1000), INT8)),
            "conv: the weight starts in lane 0, for this result it can only start in lane 4 or 5; move it",
        ),
        (
            small_conv(result=Operand(0x7FF0, INT8), result_shape=(2, 8, 4, 4)),
            "conv: bytes 0x7ff0..0x8010 of lanes 0..7 are outside lmem; move or split the tensor",
        ),
        (add(left=Operand(0, INT8)), "tensor.add: operands int8 and int16, it takes 16-bit ones; convert them"),
        (
            add(right=Scalar.of(1, BF16)),
            "tensor.add: bf16 and integers cannot be mixed; convert with a DMA copy",
        ),
        (add(relu=True), "tensor.add: relu needs MUL, MAC or ADD with an 8-bit or bf16 result; use MAX"),
        (
            Lookup(
                shape=(1, 4, 1, 4),
                result=Operand(lane_address(1, 0), DType.UINT8),
                input=Operand(0, DType.UINT8),
                table=0x100,
            ),
            "must start in lane 0",
        ),
        (
            MaxPool(
                result=Operand(0x100, INT8),
                result_shape=(1, 4, 2, 2),
                input=Operand(0, BF16),
                input_size=(4, 4),
                kernel=(2, 2),
                stride=(2, 2),
            ),
            "pool.max: bf16 to int8; use int8, uint8 or bf16 on both sides",
        ),
        (
            TensorCopy(source=gmem(1), destination=0, shape=(1, 1, 1, 8), dtype=BF16, destination_dtype=INT8),
            "dma.load: bf16 becomes 8 bits only on its way out of local memory",
        ),
    ],
)
def test_illegal_instructions_say_why(instruction: Any, message: str) -> None:
    with pytest.raises(IllegalCommand, match=message):
        instruction.on(CV183X).check()


def test_a_value_too_large_for_its_field_is_refused() -> None:
    with pytest.raises(IllegalCommand, match="compute descriptor: opd1_c has 12 bits, 5000 does not fit; use at most"):
        small_conv(result_shape=(1, 5000, 4, 4)).encode(1, 0)
    with pytest.raises(IllegalCommand, match=r"conv: id 65536 waiting for 0: ids have 16 bits; split the program"):
        small_conv().encode(65536, 0)


@each(
    ("columns", "dtype", "split"),
    [(10, INT8, (1, 10)), (20, INT8, (2, 16)), (1024, INT8, (32, 32)), (20, BF16, (3, 8)), (513, INT8, (17, 32))],
)
def test_columns_are_spread_as_the_vendor_does(columns: int, dtype: DType, split: tuple[int, int]) -> None:
    assert split_columns(columns, dtype, CV183X) == split


def test_every_exported_name_exists() -> None:
    assert all(hasattr(isa, name) for name in isa.__all__)
