"""Functions for single processors against the op's evaluation: every bit, by each compiler and optimization."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.registry import Registry
from tpuc_c import model
from tpuc_c.chip import CHIP
from tpuc_c.storage import unpacked
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import CompiledKernels, Fixed, Sample, compile_kernels

from tests.chips.c.programs import COMPILERS, FLAGS, SANITIZED, build, needs_compiler, run
from tests.chips.c.test_kernels import bias, element, filters, stored
from tests.families import each

PROCESSORS = ("TPUC_ANY_PROCESSOR", "TPUC_WITH_AVX2", "TPUC_WITH_VNNI")
"""The most that is used; a machine that lacks it takes the next one."""


def drawn(seed: int) -> Sample:
    """A convolution by chance with as many channels, filters and windows as vectors hold, and some beyond."""
    rng = np.random.default_rng(seed)
    kind = int(rng.integers(4))
    groups = (1, 1, int(rng.integers(2, 5)), int(rng.integers(2, 70)))[kind]
    channels = groups * (1 if kind == 3 else int(rng.integers(1, 45)))
    count = groups * (1 if kind == 3 else int(rng.integers(1, 41)))
    kernel = (int(rng.integers(1, 6)), int(rng.integers(1, 4))) if rng.integers(3) else (1, 1)
    unsigned, several = bool(rng.integers(2)), count if rng.integers(2) else 1
    attributes: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": tuple(map(int, rng.integers(1, 3, 2))),
        "pads": tuple(map(int, rng.integers(0, min(kernel), 4))),
        "dilations": tuple(map(int, rng.integers(1, 3, 2))),
        "group": groups,
        "do_relu": bool(rng.integers(2)),
        "kernel_zp": int(rng.choice([0, 0, 100, -128])),
    }
    way = int(rng.integers(4))
    if way == 1:
        attributes |= {"scales": tuple(rng.uniform(0.0002, 0.004, several).tolist()), "round_mode": "HalfToEven"}
    elif way:
        mode = "HalfUp" if way == 2 else "HalfAwayFromZero"
        multipliers = map(int, rng.integers(1 << 22, (1 << 31) - 1, several))
        shifts = map(int, rng.integers(1, 42, several) if rng.integers(2) else rng.integers(37, 42, several))
        attributes |= {"multiplier": tuple(multipliers), "rshift": tuple(shifts), "round_mode": mode}
        attributes |= {"quant_mode": "MultiplierShift"}
    else:
        attributes |= {"do_relu": False}
    shape = (int(rng.integers(1, 3)), channels, int(rng.integers(9, 12)), int(rng.integers(6, 12)))
    source = stored(shape, seed, unsigned, point=0 if unsigned else int(rng.integers(-3, 4)))
    operands = [source, filters((count, channels // groups, *kernel), seed + 1), bias(count, seed + 2)]
    return Sample(tpu.Conv2D(**attributes), operands, element(bool(rng.integers(2)), 0.05, 3) if way else None)


def product(seed: int) -> Sample:
    """Rows with a matrix: few rows, many columns."""
    rng = np.random.default_rng(seed)
    rows, depth, columns = int(rng.integers(1, 22)), int(rng.integers(1, 300)), int(rng.integers(1, 90))
    right = Fixed(rng.integers(-128, 128, (depth, columns)).astype(np.int8), "si8")
    added = Fixed(rng.integers(-900, 900, (1, columns)).astype(np.int32))
    op = tpu.MatMul(multipliers=(1 << 30,), rshifts=(38,), round_mode="HalfUp", right_zp=int(rng.choice([0, 90])))
    left = stored((1, rows, depth), seed, bool(rng.integers(2)))
    return Sample(op, [left, right, added, None, None], element(False))


def check(compiled: CompiledKernels, monkeypatch: pytest.MonkeyPatch, name: str, *flags: str) -> None:
    """The program that a compiler makes gives what the evaluation does."""
    monkeypatch.setattr(model, "compiler", lambda: shutil.which(name))
    monkeypatch.setattr(model, "FLAGS", (*FLAGS, *flags))
    compiled.compare(Registry().get("tpuc.chips", "c").load(compiled.data, name).run(compiled.inputs))


def samples(count: int) -> dict[str, Sample]:
    convolutions = {f"conv{seed}": drawn(seed) for seed in range(count)}
    return convolutions | {f"product{seed}": product(seed) for seed in range(count // 4)}


@needs_compiler
def test_every_processor_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_kernels(samples(16), "c", Registry())
    for processor in PROCESSORS[1:]:
        check(compiled, monkeypatch, COMPILERS[0], f"-DTPUC_PROCESSOR={processor}")


VARIANTS = (*(f"-DTPUC_PROCESSOR={name}" for name in PROCESSORS), "-DTPUC_PORTABLE")


@pytest.mark.slow
@needs_compiler
@each("variant", VARIANTS)
def test_every_compiler_and_optimization_gives_the_same_bits(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_kernels(samples(80), "c", Registry())
    for name in COMPILERS:
        for flags in (("-O1",), ("-O3",), ("-O3", "-msse4.1"), ("-O2", "-mavx2")):
            check(compiled, monkeypatch, name, variant, *flags)


@pytest.mark.slow
@needs_compiler
@each("variant", VARIANTS)
def test_nothing_is_read_or_written_beyond_its_end(variant: str, tmp_path: Path) -> None:
    """Sanitizers do not run in the confinement."""
    compiled = compile_kernels(samples(80), "c", Registry())
    for name, content in unpacked(compiled.data, variant).items():
        if "/" not in name:
            (tmp_path / name).write_bytes(content)
    wanted = CHIP.load(compiled.data).inputs
    data = b"".join(np.ascontiguousarray(compiled.inputs[one.name]).tobytes() for one in wanted)
    sources = sorted(path.name for path in tmp_path.glob("*.c"))
    assert run(build(tmp_path, sources, variant, *SANITIZED), data)
