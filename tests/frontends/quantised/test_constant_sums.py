"""Sums of stated values and constants of any shape: ONNX Runtime's integers, whatever the scales are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored

from tests.frontends.quantised.clipped import compared
from tests.frontends.quantised.clipping import Cases, Graph, Stored

SHAPES = (
    ((2, 12), (1, 12)),
    ((1, 4, 5, 6), (1, 4, 1, 1)),
    ((1, 4, 5, 6), (1, 4, 5, 6)),
    ((3, 4, 5, 6), (1, 1, 5, 6)),
    ((2, 5, 6), (1, 1, 6)),
    ((1, 2, 3, 4, 3), (1, 2, 1, 4, 1)),
)
CHIPS = pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x", "cv183x")]
)


def sums(seed: int) -> Cases:
    """One of every shape, with both orders of a difference; inputs lie on their steps."""
    rng = np.random.default_rng(seed)
    cases = Cases(Graph(), {}, [], {}, [])
    for index, (dims, shape) in enumerate(SHAPES):
        graph, x, y = cases.graph, f"v{index}x0", f"v{index}y0"
        scale, zero = np.float32(rng.uniform(0.01, 0.1)), np.uint8(rng.integers(1, 255))
        cases.inputs[x] = (rng.integers(0, 256, dims) - float(zero)).astype(np.float32) * scale
        cases.values.append(Stored(x, "input", (x,), float(scale), dims))
        operands = [
            graph.stored(x, float(scale), zero),
            graph.weight(f"{y}_k", rng.normal(0, 3, shape).astype(np.float32), None, "int8"),
        ]
        op = str(rng.choice(["Add", "Sub"]))
        graph.do(op, operands[:: int(rng.choice([-1, 1]))], y)
        step = np.float32(float(scale) * rng.uniform(0.05, 3))
        cases.values.append(Stored(y, op, (f"{x}_dq",), float(step), dims))
        cases.outputs[graph.stored(y, float(step), np.uint8(rng.integers(0, 256)))] = dims
        cases.ops.append(op)
    return cases


def far(chip: str, seeds: range, folder: Path) -> list[str]:
    """Sums that are more than one step off, and those that the simulated file computes otherwise."""
    found: list[str] = []
    for seed in seeds:
        cases, path = sums(seed), folder / "sums.onnx"
        onnx.save(cases.model(), path)
        session = Session(chip=chip, quantize="int8")
        built = session.build(session.transform(path))
        results = [off for off in compared(cases, built.module) if off.op != "input"]
        assert len(results) == len(SHAPES)
        found += [f"{off.name} of {seed}: {off.steps:.2f}" for off in results if off.steps > 1.01]
        given = as_stored(inputs_of(built.module), dict(cases.inputs))
        simulated = session.chip.load(built.data).run(given)
        for name, wanted in Interpreter(built.module).run(given).items():
            if not np.array_equal(simulated[name].reshape(wanted.shape), wanted):
                found.append(f"{name} of {seed}: simulated")
    return found


@CHIPS
def test_sums_with_constants_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(2), tmp_path) == []


@pytest.mark.slow
@CHIPS
def test_three_hundred_sums_with_constants_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(10, 60), tmp_path) == []
