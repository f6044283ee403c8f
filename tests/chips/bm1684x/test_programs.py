"""Single instructions against results of the vendor's functional model, kept in `goldens/programs.npz`."""

from __future__ import annotations

import numpy as np
import pytest
from tpuc.api import Engine
from tpuc_bm1684x.isa import RawCommand
from tpuc_bm1684x.isa.stream import decode_fields
from tpuc_bm1684x.isa.tables import identify
from tpuc_bm1684x.machine import Machine

from tests.chips.bm1684x.cases import GENERATORS
from tests.chips.bm1684x.draw import Array, differences
from tests.chips.bm1684x.make_goldens import FILE, unpack_place

with np.load(FILE) as _file:
    GOLDENS: dict[str, Array] = dict(_file)
NAMES = sorted({key.split(".")[0] for key in GOLDENS})


def test_every_kind_of_case_has_goldens() -> None:
    assert {name.rsplit("_", 1)[0] for name in NAMES} == set(GENERATORS)


@pytest.mark.parametrize("name", NAMES)
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
