"""A compiled network on emulated boards writes what it writes on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.registry import Registry
from tpuc_c.chip import CHIP
from tpuc_c.storage import unpacked
from tpuc_testing.kernel_conformance import compile_kernels

from tests.chips.c import cortex_m, programs
from tests.chips.c.programs import DIGITS, FLOAT, compile_digits
from tests.chips.c.test_processors import samples
from tests.families import each

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


@programs.needs_compiler
@cortex_m.needs_board
@each("board", ["M4", "M55", "A15"])
def test_vectors_give_the_bits_of_the_portable_loop(board: str, tmp_path: Path) -> None:
    """Pairs of elements on a Cortex-M4, Helium on a Cortex-M55, and Neon on a Cortex-A15."""
    compiled = compile_kernels(samples(12), "c", Registry())
    for name, content in unpacked(compiled.data, "").items():
        if "/" not in name:
            (tmp_path / name).write_bytes(content)
    wanted = CHIP.load(compiled.data).inputs
    data = b"".join(np.ascontiguousarray(compiled.inputs[one.name]).tobytes() for one in wanted)
    sources = sorted(path.name for path in tmp_path.glob("*.c"))
    here = programs.run(programs.build(tmp_path, sources, "-O2", "-DTPUC_PORTABLE"), data)
    chosen: cortex_m.Board = getattr(cortex_m, board)
    assert cortex_m.run(cortex_m.build(tmp_path, "-O2", board=chosen), data, chosen) == here
