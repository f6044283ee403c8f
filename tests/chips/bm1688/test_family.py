"""The second generation: its field tables, CV186x and BM1688, and a made-up member of 16 lanes of the same classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from tpuc.api import Engine, IllegalCommand, Unsupported
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc.registry.offers import installed_offers
from tpuc_bm1684x.isa.conv import Conv
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.system import WriteRegisters
from tpuc_bm1684x.isa.tables import load_tables
from tpuc_bm1684x.isa.target import BM1684X
from tpuc_bm1684x.isa.types import DType, Operand
from tpuc_bm1688.chip import CHIP, SecondGeneration
from tpuc_bm1688.kernels import kernel_table
from tpuc_bm1688.target import CV186X
from tpuc_driver.session import Session
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.test_networks import assert_same
from tests.core.fakes import offer
from tests.families import each
from tests.models.networks import Network

NARROW = replace(
    CV186X,
    name="narrow",
    file_chip="NARROW",
    lanes=16,
    lane_bytes=0x1_0000,
    bank_bytes=0x1000,
    packing=MappingProxyType({1: 16, 2: 8, 4: 1}),
)
TRIES = 40


def test_every_command_encodes_to_the_fields_it_was_read_from() -> None:
    rng = np.random.default_rng(0)
    wrong: list[str] = []
    for table in CV186X.layouts.values():
        ends = sorted((offset, width) for offset, width in table.fields.values())
        if [offset for offset, _ in ends] != [0, *np.cumsum([width for _, width in ends])[:-1]]:
            wrong.append(f"{table.name}: a gap or an overlap between its fields")
        if sum(width for _, width in ends) != 8 * table.length_bytes:
            wrong.append(f"{table.name}: its fields are not {table.length_bytes} bytes")
        if table.opcode is None:
            continue
        for _ in range(TRIES):
            code = int(rng.choice(list(table.suboperations)))
            drawn = table.unpack(rng.bytes(table.length_bytes))
            head = {table.main: table.opcode, table.sub: code, "cmd_short": table.short or 0}
            data = table.pack(drawn | {name: value for name, value in head.items() if name in table.fields})
            fields = table.unpack(data)
            if decode_fields(table, fields, CV186X).encode(7, fields["cmd_id_dep"]) != data:
                wrong.append(f"{table.name}.{table.suboperations[code]}: {data.hex()}")
    assert not wrong
    assert len(CV186X.layouts) == 41


def test_the_tables_of_bm1684x_are_its_own() -> None:
    assert BM1684X.layouts == load_tables() != CV186X.layouts


@each("mode", ["f16", "int8"])
@each("chip", ["cv186x", "bm1688", "narrow"])
def test_the_simulator_equals_the_evaluation(chip: str, mode: str, network: Callable[[str], Network]) -> None:
    net = network("digits")
    own = [offer("chips", "narrow", SecondGeneration(NARROW)), offer("kernels", "narrow.tpu", kernel_table(NARROW))]
    session = Session(Registry(offers=[*installed_offers(), *own]), chip=chip, quantize=mode)
    final, data = build_exposed(session, net.module, net.table if mode == "int8" else None)
    loaded = session.chip.load(data)
    got = loaded.run(net.inputs(3))
    wanted = Interpreter(final).run(net.inputs(3), "all")
    if mode == "int8":
        assert_same(got, wanted, dict.fromkeys([info.name for info in loaded.outputs], np.empty(0)))
    else:  # in blocks of other lengths than on the host
        for name, array in got.items():
            reference = wanted[name].astype(np.float64)
            assert np.abs(array.reshape(reference.shape) - reference).max() <= 6e-4 * max(np.ptp(reference), 1), name
    assert loaded.disassemble().startswith(f"bmodel for {session.chip.description.name.upper()}, ")


def test_the_zero_point_of_a_filter_is_written_before_the_convolution() -> None:
    assembler = CHIP.assembler()
    assembler.record(_conv(DType.INT8, DType.INT32))
    assembler.record(_conv(DType.F16, DType.F16))
    registers, first, second = assembler.instructions
    assert registers == WriteRegisters(values=((5, 0),), target=CV186X)
    assert [region.start for region in registers.writes()] == [20]
    assert [region for region in first.reads() if region.space == "registers"] == list(registers.writes())
    assert not [region for region in second.reads() if region.space == "registers"]
    assert {one.engine for one in assembler.instructions} == {Engine.COMPUTE}


def _conv(kind: DType, result: DType) -> Conv:
    return Conv(
        result=Operand(0x1000, result),
        result_shape=(1, 40, 4, 4),
        input=Operand(0, kind),
        input_shape=(3, 4, 4),
        weight=Operand(0x2000, kind),
    )


def test_lanes_end_where_those_of_the_chip_do() -> None:
    near = _conv(DType.F16, DType.F16)
    outside = replace(near, result=Operand(CV186X.lane_bytes - 64, DType.F16), result_shape=(1, 72, 4, 4)).on(CV186X)
    with pytest.raises(
        IllegalCommand, match=r"conv.normal: bytes 0x1ffc0\.\.0x20020 of lanes 0\.\.31 are outside lmem"
    ):
        outside.check()
    outside.on(BM1684X).check()


def test_files_of_other_chips_are_refused(tmp_path: Path, network: Callable[[str], Network]) -> None:
    data = Session(chip="bm1684x", quantize="f16").build(network("digits").module).data
    with pytest.raises(
        Unsupported, match="bmodel for chip 'BM1684X': only files for CV186X can be read here; recompile"
    ):
        CHIP.load(data)
    path = tmp_path / "digits.bmodel"
    path.write_bytes(data)
    assert Session(chip="cv186x").open(path) is not None
