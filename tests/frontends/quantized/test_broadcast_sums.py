"""Sums, products, and selections of stated values that broadcast, and sums of three: ONNX Runtime's integers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored

from tests.families import each
from tests.frontends.quantized.clipped import compared
from tests.frontends.quantized.clipping import Cases, Graph, Stored
from tests.frontends.quantized.test_clipping import CHIPS, most
from tests.frontends.quantized.test_slopes_and_limits import given, zero_of

SHAPES = (
    ((2, 12), (12,)),
    ((2, 12), (2, 1)),
    ((2, 5, 6), (5, 1)),
    ((2, 5, 6), (2, 1, 6)),
    ((1, 4, 5, 6), (1, 4, 1, 1)),
    ((1, 4, 5, 6), (1, 1, 5, 6)),
    ((1, 4, 5, 6), (6,)),
    ((3, 4, 5, 2), (3, 4, 1, 2)),
    ((3, 4, 5, 2), (4, 5, 1)),
    ((3, 4, 5, 2), (1,)),
    ((2, 1, 5, 6), (1, 4, 5, 1)),
    ((1, 70, 3, 5), (1, 70, 1, 1)),
    ((2, 3, 4, 5, 2), (3, 1, 1, 2)),
    ((1, 3, 4, 5), (2, 1, 1, 1)),
)
OPS = ("Add", "Add", "Sub", "Sub", "Sum", "Mul", "Max", "Min")
TOGETHER = 10
"""Cases in one network."""


def draw(seed: int) -> Cases:
    """Cases side by side, whose results may clip."""
    rng = np.random.default_rng(seed)
    cases = Cases(Graph(), {}, [], {}, [])
    for index in range(TOGETHER):
        shapes, op, y = SHAPES[int(rng.integers(len(SHAPES)))], str(rng.choice(OPS)), f"v{index}y0"
        operands = [*shapes, shapes[0]] if op == "Sum" else [*shapes]
        rng.shuffle(operands)
        read, reaches = list[str](), list[float]()
        for place, dims in enumerate(operands):
            name, array = given(cases, f"v{index}x{place}", dims, str(rng.choice(["uint8", "int8"])), rng)
            read.append(name)
            reaches.append(float(np.abs(array).max()))
        cases.graph.do(op, read, y)
        reach = np.prod(reaches) if op == "Mul" else max(reaches) if op in ("Max", "Min") else sum(reaches)
        kind, dims = str(rng.choice(["uint8", "int8"])), np.broadcast_shapes(*operands)
        step = np.float32(reach / 127 * rng.uniform(0.2, 1.5))
        result = cases.graph.stored(y, float(step), zero_of(kind, rng))
        cases.values.append(Stored(y, op, tuple(read), float(step), dims))
        cases.outputs[result] = dims
        cases.ops.append(op)
    return cases


def far(chip: str, seeds: Iterable[int], folder: Path) -> tuple[int, list[str]]:
    """How many results were compared, those that are too far off, and those that the file computes otherwise."""
    is_exact = "int8-asym" in Registry().get("tpuc.chips", chip).description.modes
    count, found = 0, list[str]()
    for seed in seeds:
        cases, path = draw(seed), folder / "sums.onnx"
        onnx.save(cases.model(), path)
        session = Session(chip=chip, quantize="int8")
        built = session.build(session.transform(path))
        results = [off for off in compared(cases, built.module) if off.op != "input"]
        count += len(results)
        found += [
            f"{off.op} {off.name} of {seed}: {off.steps:.2f}"
            for off in results
            if off.steps > most(off, is_exact=is_exact)
        ]
        stored = as_stored(inputs_of(built.module), dict(cases.inputs))
        simulated = session.chip.load(built.data).run(stored)
        for name, wanted in Interpreter(built.module).run(stored).items():
            if not np.array_equal(simulated[name].reshape(wanted.shape), wanted):
                found.append(f"{name} of {seed}: simulated")
    return count, found


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "c", "cv181x")])
def test_values_that_broadcast_give_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, (3, 5), tmp_path) == (2 * TOGETHER, [])


@pytest.mark.slow
@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_two_thousand_values_that_broadcast_give_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(100, 300), tmp_path) == (2000, [])
