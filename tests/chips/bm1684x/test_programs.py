"""Single instructions against results of the vendor's functional model, kept in `goldens/programs.npz`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tpuc.api import Engine, IllegalCommand
from tpuc_bm1684x.isa import DType, LinearCopy, MatrixCopy, RawCommand
from tpuc_bm1684x.isa.geometry import DDR_BASE, lmem
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.machine import Machine

from tests.chips.bm1684x.cases import GENERATORS
from tests.chips.bm1684x.draw import Array, differences
from tests.chips.bm1684x.make_goldens import FILE, unpack_place
from tests.families import each

with np.load(FILE) as _file:
    GOLDENS: dict[str, Array] = dict(_file)
NAMES = sorted({key.split(".")[0] for key in GOLDENS})


def test_every_kind_of_case_has_goldens() -> None:
    assert {name.rsplit("_", 1)[0] for name in NAMES} == set(GENERATORS)


@each("name", NAMES)
def test_the_simulator_gives_what_the_functional_model_gave(name: str) -> None:
    data = GOLDENS[f"{name}.command"].tobytes()
    table = identify(Engine(int(GOLDENS[f"{name}.engine"])), int.from_bytes(data[:16], "little"))
    instruction = decode_fields(table, table.unpack(data))
    assert not isinstance(instruction, RawCommand)
    machine = Machine(1 << 20)
    machine.lmem[:] = 0
    index = 0
    while f"{name}.in{index}" in GOLDENS:
        place = unpack_place(GOLDENS[f"{name}.at{index}"])
        values = GOLDENS[f"{name}.in{index}"].view(place.dtype.numpy)
        machine.write(place.address, place.shape, place.strides, place.dtype, values)
        index += 1
    instruction.check()
    instruction.execute(machine)
    place = unpack_place(GOLDENS[f"{name}.to"])
    expected = GOLDENS[f"{name}.out"].view(place.dtype.numpy)
    got = machine.read(place.address, place.shape, place.strides, place.dtype)
    assert not differences(expected, got, any_nan=name.endswith("_edges")), instruction.describe()


MATRIX = MatrixCopy(
    source=DDR_BASE,
    destination=lmem(0),
    rows=3,
    columns=10,
    row_stride=10,
    width=4,
    pieces=3,
    local_strides=(16, 16),
    dtype=DType.INT8,
)
RUN = LinearCopy(source=DDR_BASE, destination=lmem(0), count=1, dtype=DType.INT8)


@each(
    ("copy", "sentence"),
    [
        (replace(MATRIX, destination=DDR_BASE), r"dma\.matrix: exactly one side must be local memory"),
        (replace(MATRIX, source=lmem(64)), r"dma\.matrix: exactly one side must be local memory"),
        (
            replace(MATRIX, source=lmem(0), destination=DDR_BASE, transpose=True),
            r"dma\.matrix_transpose: it cannot transpose from local memory",
        ),
        (replace(MATRIX, pieces=2), r"dma\.matrix: 2 pieces of 4 do not hold 10 columns; use 3"),
        (replace(MATRIX, pieces=4), r"dma\.matrix: 4 pieces of 4 do not hold 10 columns; use 3"),
        (replace(MATRIX, transpose=True), r"dma\.matrix_transpose: 3 pieces of 4 do not hold 3 columns; use 1"),
        (replace(RUN, count=0), r"dma\.linear: no elements; use at least 1"),
    ],
)
def test_copies_that_the_engine_does_not_make_are_refused(copy: MatrixCopy | LinearCopy, sentence: str) -> None:
    MATRIX.check()
    RUN.check()
    with pytest.raises(IllegalCommand, match=sentence):
        copy.check()
