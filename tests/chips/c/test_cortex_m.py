"""A compiled network on an emulated microcontroller writes what it writes on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.chips.c import cortex_m, programs
from tests.chips.c.programs import DIGITS, FLOAT, compile_digits

SOURCES = ("digits_lib0.c", "digits_operators.c", "main.c")


@programs.needs_lowerings
@programs.needs_compiler
@cortex_m.needs_board
@pytest.mark.parametrize("mode", [None, FLOAT], ids=["int8", "f32"])
def test_cortex_m4_computes_what_this_machine_computes(mode: tuple[str, ...] | None, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    compile_digits(folder, mode=mode)
    with np.load(DIGITS / "digits_eval.npz") as data:
        samples = data["x"][:3].astype(np.float32).tobytes()
    here = np.frombuffer(programs.run(programs.build(folder, SOURCES, "-O2"), samples), np.float32)
    there = np.frombuffer(cortex_m.run(cortex_m.build(folder, "-O2"), samples), np.float32)
    assert here.size == 30
    # the softmax asks each system's own expf, whose last bits differ
    np.testing.assert_allclose(there, here, rtol=1e-6)
