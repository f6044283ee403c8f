"""Commands keep every bit: reference encodings, random commands, streams."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Command, CorruptFile, Engine, IllegalCommand, derive_waits
from tpuc_bm1684x import isa
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, DType, Fill, Operand, RawCommand
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.isa.stream import decode_fields, decode_stream, encode_stream
from tpuc_bm1684x.isa.tables import CommandTable, identify, load_tables

from tests.examples import examples
from tests.families import each

REFERENCES: list[Any] = json.loads(gzip.decompress((Path(__file__).parent / "goldens/encodings.json.gz").read_bytes()))
DECODABLE = [table for table in load_tables().values() if table.opcode is not None]


def reencoded(table: CommandTable, data: bytes) -> bytes:
    fields = table.unpack(data)
    return decode_fields(table, fields).encode(fields.get("cmd_id", 0), fields.get("cmd_id_dep", 0))


def test_there_are_150_reference_encodings() -> None:
    assert len(REFERENCES) == 150


@each("row", REFERENCES, ids=[f"{index}-{row[0]}" for index, row in enumerate(REFERENCES)])
def test_reference_encodings_match_bit_for_bit(row: tuple[str, dict[str, int], str]) -> None:
    name, fields, expected = row
    table = load_tables()[name]
    data = bytes.fromhex(expected)
    assert table.pack(fields) == data
    assert identify(table.engine, int.from_bytes(data[:16], "little")) is table
    assert reencoded(table, data) == data


@each("kind", [isa.RowGather, isa.RowScatter])
def test_rows_need_no_extents_that_others_give(kind: type[isa.RowGather | isa.RowScatter]) -> None:
    """The vendor's compiler leaves the destination's 0; its model ran both kinds alike with other numbers there."""
    sizes = {"source_size": (1, 20, 6), "destination_size": (5, 7, 6)}
    if kind is isa.RowScatter:
        sizes = {"source_size": (1, 7, 6), "destination_size": (5, 20, 6)}
    rows = kind(
        source=DDR_BASE,
        source_strides=(120, 6),
        destination=isa.lmem(0x4000),
        destination_strides=(160, 8),
        index=isa.lmem(0x8000),
        index_size=(5, 7),
        index_strides=(16, 1),
        dtype=DType.F16,
        **sizes,
    )
    fields = rows.bit_layout.unpack(rows.encode(1, 0)) | {"dst_csize": 0, "dst_wsize": 9, "index_hsize": 0}
    other = decode_fields(rows.bit_layout, fields)
    assert isinstance(other, kind)
    other.check()
    assert (other.source_size, other.destination_size, other.index_size) == (*sizes.values(), (5, 7))
    assert other.encode(1, 0) == rows.bit_layout.pack(fields)


def test_most_reference_commands_have_a_class_of_their_own() -> None:
    raw = [row[0] for row in REFERENCES if isinstance(decode_fields(load_tables()[row[0]], row[1]), RawCommand)]
    assert sorted(set(raw)) == ["DMA_gather", "DMA_masked_select", "DMA_scatter", "sVC"]


@given(st.data())
@examples(400)
def test_random_commands_survive_decoding_and_encoding(data: st.DataObject) -> None:
    table = data.draw(st.sampled_from(DECODABLE))
    word = int.from_bytes(data.draw(st.binary(min_size=table.length_bytes, max_size=table.length_bytes)), "little")
    fixed = {table.main: table.opcode or 0, table.sub: data.draw(st.sampled_from(sorted(table.suboperations)))}
    if table.short is not None and "cmd_short" in table.fields:
        fixed["cmd_short"] = table.short
    for name, value in fixed.items():
        offset, width = table.fields[name]
        word = word & ~(((1 << width) - 1) << offset) | value << offset
    command = word.to_bytes(table.length_bytes, "little")
    assert reencoded(table, command) == command


@given(st.sampled_from(REFERENCES), st.integers(0, 1 << 20), st.integers(0, 1023))
@examples(200)
def test_single_flipped_bits_of_real_commands_survive(
    row: tuple[str, dict[str, int], str], number: int, bit: int
) -> None:
    table, data = load_tables()[row[0]], bytearray.fromhex(row[2])
    data[bit // 8 % len(data)] ^= 1 << bit % 8
    if table.unpack(bytes(data)).get(table.sub, 0) in table.suboperations and number >= 0:
        same = identify_or_none(table, bytes(data))
        assert not same or reencoded(table, bytes(data)) == bytes(data)


def identify_or_none(table: CommandTable, data: bytes) -> bool:
    try:
        return identify(table.engine, int.from_bytes(data[:16], "little")) is table
    except IllegalCommand:
        return False


def test_a_value_too_large_for_its_field_is_refused() -> None:
    add = Arithmetic(
        operation=ArithmeticOp.NOT, shape=(1, 70000, 1, 1), result=Operand(0, DType.INT8), left=Operand(0, DType.INT8)
    )
    with pytest.raises(IllegalCommand, match="sAR: res0_c has 16 bits, 70000 does not fit; use at most 65535"):
        add.encode(1, 0)


def test_the_long_form_encodes_the_same_fields() -> None:
    add = Arithmetic(
        operation=ArithmeticOp.NOT,
        shape=(1, 2, 3, 4),
        result=Operand(64, DType.INT8),
        left=Operand(0, DType.INT8),
        long_form=True,
    )
    data = add.encode(3, 2)
    table = identify(Engine.COMPUTE, int.from_bytes(data[:16], "little"))
    assert (table.name, len(data)) == ("AR", 128)
    assert decode_fields(table, table.unpack(data)) == add


def small_program() -> list[Command]:
    return derive_waits(
        [
            Fill(destination=isa.lmem(0), shape=(1, 4, 1, 16), dtype=DType.INT8, value=5),
            Arithmetic(
                operation=ArithmeticOp.ADD,
                shape=(1, 4, 1, 16),
                result=Operand(64, DType.INT8),
                left=Operand(0, DType.INT8),
                right=Operand(0, DType.INT8),
            ),
            isa.TensorCopy(source=isa.lmem(64), destination=DDR_BASE, shape=(1, 4, 1, 16), dtype=DType.INT8),
        ]
    )


def test_streams_are_padded_and_come_back_equal() -> None:
    commands = small_program()
    for engine in Engine:
        data = encode_stream(commands, engine)
        assert len(data) % 128 == 0
        stream = decode_stream(engine, data)
        assert list(stream.commands) == [command for command in commands if command.engine is engine]
        assert stream.end.number == len(stream.commands) + 1


def test_a_stream_without_an_end_is_corrupt() -> None:
    data = encode_stream(small_program(), Engine.COMPUTE)[:64]
    with pytest.raises(CorruptFile, match="compute stream of 64 bytes: no end command; the file is truncated"):
        decode_stream(Engine.COMPUTE, data)


def test_an_unknown_operation_is_named() -> None:
    with pytest.raises(
        IllegalCommand, match=r"compute command: no operation 3\.31 in short form; the stream is damaged"
    ):
        decode_stream(Engine.COMPUTE, (1 | 3 << 41 | 31 << 45).to_bytes(64, "little"))


def test_short_dma_commands_are_refused() -> None:
    data = load_tables()["sDMA_general"].pack({"cmd_short": 1, "cmd_type": 3})
    with pytest.raises(IllegalCommand, match="DMA command 1: the short form cannot be relocated; use the long one"):
        decode_stream(Engine.DMA, data)
