"""Sums and products of stated values and constants of any shape: ONNX Runtime's integers, whatever the scales are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored

from tests.frontends.quantized.clipped import compared
from tests.frontends.quantized.clipping import Array, Cases, Graph, Stored

SHAPES = (
    ((2, 12), (1, 12)),
    ((1, 4, 5, 6), (1, 4, 1, 1)),
    ((1, 4, 5, 6), (1, 4, 5, 6)),
    ((3, 4, 5, 6), (1, 1, 5, 6)),
    ((2, 5, 6), (1, 1, 6)),
    ((1, 2, 3, 4, 3), (1, 2, 1, 4, 1)),
)
OPS = ("Add", "Sub", "Mul", "Div", "BatchNormalization")
ON_INTEGERS = ("Add", "Sub", "Mul", "Mul")
ZEROS = (0, 1, 60, 128, 200, 254, 255)
CHIPS = pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x", "cv183x")]
)
EXACT = pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "c", "cv186x")]
)
"""Chips with zero points."""


def affine(seed: int, *, is_stored: bool = False) -> Cases:
    """One of every shape, with both orders of a difference, and a normalization; inputs lie on their steps.
    `is_stored`: sums and products of constants whose integers are anywhere in their bytes.
    """
    rng = np.random.default_rng(seed)
    cases = Cases(Graph(), {}, [], {}, [])
    for index, (dims, shape) in enumerate(SHAPES):
        graph, x, y = cases.graph, f"v{index}x0", f"v{index}y0"
        scale, zero = np.float32(rng.uniform(0.01, 0.1)), np.uint8(rng.integers(1, 255))
        array = (rng.integers(0, 256, dims) - float(zero)).astype(np.float32) * scale
        read, op = graph.stored(x, float(scale), zero), str(rng.choice(ON_INTEGERS if is_stored else OPS))
        reach = (_write_stored if is_stored else _write)(op, graph, read, y, (array, shape), rng)
        step = np.float32(max(reach, 0.1) / 255 * rng.uniform(*((0.03, 0.3) if is_stored else (0.2, 2))))
        cases.inputs[x] = array
        cases.values.append(Stored(x, "input", (x,), float(scale), dims))
        cases.values.append(Stored(y, op, (f"{x}_dq",), float(step), dims))
        cases.outputs[graph.stored(y, float(step), np.uint8(rng.integers(0, 256)))] = dims
        cases.ops.append(op)
    return cases


def _write(
    op: str, graph: Graph, read: str, name: str, given: tuple[Array, tuple[int, ...]], rng: np.random.Generator
) -> float:
    """An op on what is read, whose values are `given` with the shape of a constant; how far its results reach."""
    array, shape = given
    if op == "BatchNormalization":
        numbers = [rng.normal(0, 1, array.shape[1]).astype(np.float32) for _ in range(4)]
        numbers[0][0], numbers[3] = rng.choice([0.0, 1e-7, 1.0]), np.abs(numbers[3]) + np.float32(0.5)
        graph.do(op, [read, *(graph.constant(f"{name}_n{index}", one) for index, one in enumerate(numbers))], name)
        return float(np.abs(array).max()) * 2
    constant = rng.normal(0, 3 if op in ("Add", "Sub") else 1, shape).astype(np.float32)
    if op == "Div":
        constant = np.copysign(np.abs(constant) + np.float32(0.3), constant)
    plain = graph.constant(f"{name}_k", constant)
    operands = [read, plain if rng.random() < 0.5 else graph.weight(f"{name}_w", constant, None, "int8")]
    graph.do(op, operands if op == "Div" else operands[:: int(rng.choice([-1, 1]))], name)
    return float(np.abs(array).max() + np.abs(constant).max())


def _write_stored(
    op: str, graph: Graph, read: str, name: str, given: tuple[Array, tuple[int, ...]], rng: np.random.Generator
) -> float:
    """Like `_write`, with integers up to 255 from their zero point, or none as far as 127."""
    array, shape = given
    zero, scale = int(rng.choice(ZEROS)), np.float32(rng.uniform(0.005, 0.03))
    low, high = (0, 255) if rng.random() < 0.5 else (max(0, zero - 90), min(255, zero + 75))
    whole, sign = rng.integers(low, high, shape, endpoint=True), int(rng.choice([0, 128]))
    kind = "int8" if sign else "uint8"
    parameters = [graph.constant(f"{name}_ks", scale), graph.constant(f"{name}_kz", np.array(zero - sign, kind))]
    stored = graph.do(
        "DequantizeLinear", [graph.constant(f"{name}_ki", (whole - sign).astype(kind)), *parameters], f"{name}_k"
    )
    graph.do(op, [read, stored][:: int(rng.choice([-1, 1]))], name)
    largest, least = float(np.abs(whole - zero).max() * scale), float(np.abs(array).max())
    return largest * least if op == "Mul" else largest + least


def far(chip: str, seeds: range, folder: Path, *, is_stored: bool = False) -> list[str]:
    """Results that are more than one step off, and those that the simulated file computes otherwise."""
    found: list[str] = []
    for seed in seeds:
        cases, path = affine(seed, is_stored=is_stored), folder / "affine.onnx"
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
def test_ops_with_constants_give_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(2), tmp_path) == []


@EXACT
def test_constants_keep_the_integers_of_the_network(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(2), tmp_path, is_stored=True) == []


@pytest.mark.slow
@EXACT
def test_three_hundred_constants_keep_the_integers_of_the_network(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(10, 60), tmp_path, is_stored=True) == []


@pytest.mark.slow
@CHIPS
def test_three_hundred_ops_with_constants_give_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(10, 60), tmp_path) == []
