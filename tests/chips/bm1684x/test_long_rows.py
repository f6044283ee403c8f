"""Large matrices with a long row per lane: loaded as matrices, which takes less time, with the same bytes."""

from __future__ import annotations

import numpy as np
from tpuc.api import DdrTensor, LocalTensor, ScalarType
from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import MatrixCopy, TensorCopy
from tpuc_bm1684x.isa.geometry import DDR_BASE
from tpuc_bm1684x.machine import Machine
from tpuc_bm1684x.timing import cycles

LANES, LINE, RATE, PLAIN = 64, 64, 58.0, 54.0
"""Lanes, bytes that slots are aligned to, and bytes per cycle of a matrix (the vendor's figure) and of a plain copy."""
AT = 4096
"""Address within lanes."""


def loaded(rows: int, row: int, element: str, spare: int = 0) -> tuple[Bm1684xAssembler, np.ndarray, Machine]:
    """Load rows of `row` elements, each with `spare` ones behind it in DDR, into one lane after another."""
    size = ScalarType(element).bits // 8
    data = np.random.default_rng(rows * row).integers(0, 256, (rows, row + spare, size), np.uint8)
    machine = Machine(data.size)
    machine.ddr[:] = data.reshape(-1)
    asm = Bm1684xAssembler()
    pitch = row + spare
    source = DdrTensor(DDR_BASE, (1, rows, 1, row), (rows * pitch, pitch, pitch, 1), ScalarType(element))
    asm.load(LocalTensor(AT, (1, rows, 1, row), "aligned", ScalarType(element)), source)
    for command in asm.instructions:
        command.execute(machine)
    return asm, data[:, :row].reshape(rows, -1), machine


def test_every_row_comes_into_its_lane_at_the_rate_of_matrices() -> None:
    """Rows of 4 bits, of floats, and ones too long for the size fields with all lanes at once."""
    wrong: list[str] = []
    for rows, row, element in ((192, 288, "ui8"), (640, 576, "f16"), (128, 2432, "ui8"), (64, 8960, "f16")):
        asm, data, machine = loaded(rows, row, element)
        slot = -(-data.shape[1] // LINE) * LINE
        places = machine.lmem[:, AT:]
        for number in range(rows):
            found = places[number % LANES, number // LANES * slot :][: data.shape[1]]
            if not np.array_equal(found, data[number]):
                wrong.append(f"{rows} x {row} {element}: row {number}")
        taken = sum(map(cycles, asm.instructions))
        if not all(isinstance(one, MatrixCopy) for one in asm.instructions) or abs(taken - data.size / RATE) > 32:
            wrong.append(f"{rows} x {row} {element}: {taken} cycles")
    assert wrong == []


def test_other_tensors_are_plain_copies() -> None:
    """Rows with gaps, rows that do not fill the lanes, odd lengths, and small tensors."""
    for rows, row, spare in ((192, 288, 4), (100, 576, 0), (192, 287, 0), (64, 288, 0)):
        asm, data, machine = loaded(rows, row, "ui8", spare)
        assert all(isinstance(one, TensorCopy) for one in asm.instructions)
        assert np.array_equal(machine.lmem[3, AT : AT + row], data[3])
