"""Slopes and limits of stated values, constants of any shape and range: ONNX Runtime's integers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import pytest
import tpuc
from tpuc.errors import TpucError
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.running import as_stored

from tests.families import each
from tests.frontends.quantized.clipped import compared
from tests.frontends.quantized.clipping import Array, Cases, Graph, Stored, runtime
from tests.frontends.quantized.test_clipping import EXACT, most

SHAPES = (
    ((2, 12), ((12,), (1,), (2, 12), (2, 1), ())),
    ((2, 5, 6), ((5, 1), (1, 6), (6,), (1,), (2, 5, 6))),
    ((1, 4, 5, 6), ((4, 1, 1), (1, 4, 1, 1), (1,), (1, 5, 6), (4, 5, 6), (1, 1, 6), (5, 1), (4, 1, 6))),
    ((3, 4, 5, 2), ((4, 1, 1), (4, 1, 2), (3, 1, 1, 1), ())),
    ((1, 2, 3, 4, 3), ((2, 1, 1, 1), (4, 1), (1,), (1, 2, 3, 1, 3))),
)
KINDS = ("uint8", "int8", "int8", "int16")
CHIPS = ("bm1684x", "cv186x", "c", "cv183x", "cv181x")
FUNCTIONS = 2.0**-7
"""Of the largest result: what chips compute in floats between 16 bits, with tables of functions in bf16."""
SEEDS = {"c": (0, 143), "cv181x": (0, 210), "cv183x": (0, 210)}
"""143 has slopes of bytes that are never below 0, whose comparison with 0 a C compiler rejected; 210 has one slope for
each element, which bf16 put 2.13 steps off.
"""
TOGETHER = 12
"""Cases in one network."""


@dataclass(frozen=True)
class Place:
    """Where a case is written, and what its operand reaches."""

    graph: Graph
    name: str
    rng: np.random.Generator
    shapes: tuple[tuple[int, ...], ...]
    reach: float

    def constant(self, low: float, high: float, shape: tuple[int, ...] | None = None, suffix: str = "k") -> str:
        """Numbers from a range, plain or through integers of one scale or one per channel."""
        extents = self.shapes[int(self.rng.integers(len(self.shapes)))] if shape is None else shape
        numbers, name = self.rng.uniform(low, high, extents).astype(np.float32), f"{self.name}_{suffix}"
        if (form := int(self.rng.integers(4))) < 2:
            return self.graph.constant(name, numbers)
        axis = int(np.argmax(extents)) if form == 3 and numbers.size > 1 else None
        return self.graph.weight(name, numbers, axis, str(self.rng.choice(["int8", "uint8"])))


Maker: TypeAlias = Callable[[Place, str], float]
"""Writes an op on what is read; how far its results reach."""


def _prelu(place: Place, read: str) -> float:
    low, high = [(0, 1), (-1, 1), (-3, 3), (0, 0.02), (1, 4)][int(place.rng.integers(5))]
    place.graph.do("PRelu", [read, place.constant(low, high)], place.name)
    return place.reach * max(1, high)


def _selection(op: str) -> Maker:
    def make(place: Place, read: str) -> float:
        far = float(place.rng.choice([0.3, 1, 1, 2.5]))
        operands = [read, place.constant(-far * place.reach, far * place.reach)]
        place.graph.do(op, operands[:: int(place.rng.choice([-1, 1]))], place.name)
        return place.reach * max(1, far)

    return make


def _clip(place: Place, read: str) -> float:
    far = float(place.rng.choice([0.3, 1, 2.5])) * place.reach
    low, high = place.constant(-far, 0, (), "low"), place.constant(0, far, (), "high")
    form = int(place.rng.integers(3))
    place.graph.do("Clip", [read, *([low, high], [low], ["", high])[form]], place.name)
    return place.reach


def _leaky(place: Place, read: str) -> float:
    place.graph.do("LeakyRelu", [read], place.name, alpha=float(place.rng.choice([0.01, 0.2, 1.5, -0.5])))
    return place.reach


def _plain(op: str) -> Maker:
    def make(place: Place, read: str) -> float:
        place.graph.do(op, [read], place.name)
        return place.reach if op in ("HardSwish", "Relu") else 1.0

    return make


MAKERS: Mapping[str, Maker] = {
    "PRelu": _prelu,
    "Max": _selection("Max"),
    "Min": _selection("Min"),
    "Clip": _clip,
    "LeakyRelu": _leaky,
    "HardSigmoid": _plain("HardSigmoid"),
    "HardSwish": _plain("HardSwish"),
    "Relu": _plain("Relu"),
}
WEIGHTS = (4, 2, 2, 2, 1, 1, 1, 1)


def draw(seed: int, count: int = TOGETHER) -> Cases:
    """Cases side by side, whose results may clip."""
    rng = np.random.default_rng(seed)
    cases = Cases(Graph(), {}, [], {}, [])
    for index in range(count):
        dims, shapes = SHAPES[int(rng.integers(len(SHAPES)))]
        op = str(rng.choice(list(MAKERS), p=np.array(WEIGHTS) / sum(WEIGHTS)))
        x, y, kind = f"v{index}x0", f"v{index}y0", str(rng.choice(KINDS))
        read, array = given(cases, x, dims, kind, rng)
        reach = MAKERS[op](Place(cases.graph, y, rng, shapes, float(np.abs(array).max())), read)
        other = kind if kind == "int16" or rng.random() < 0.6 else str(rng.choice(["uint8", "int8"]))
        step = np.float32(max(reach, 0.1) / _half(other) * rng.uniform(0.2, 1.5))
        result = cases.graph.stored(y, float(step), zero_of(other, rng))
        cases.values.append(Stored(y, op, (f"{x}_dq",), float(step) * _unit(other), dims))
        cases.outputs[result] = dims
        cases.ops.append(op)
    return cases


def given(cases: Cases, x: str, dims: tuple[int, ...], kind: str, rng: np.random.Generator) -> tuple[str, Array]:
    scale, zero = np.float32(rng.uniform(0.005, 0.1)) / np.float32(_unit(kind)), zero_of(kind, rng)
    info = np.iinfo(kind)
    array = (rng.integers(info.min, info.max, dims, endpoint=True) - float(zero)).astype(np.float32) * scale
    cases.inputs[x] = array
    cases.values.append(Stored(x, "input", (x,), float(scale) * _unit(kind), dims))
    return cases.graph.stored(x, float(scale), zero), array


def _half(kind: str) -> int:
    return 32767 if kind == "int16" else 127


def _unit(kind: str) -> float:
    """Differences of 16 bits count in 255ths of the range, since chips compute these in floats."""
    return 65535 / 255 if kind == "int16" else 1.0


def zero_of(kind: str, rng: np.random.Generator) -> Array:
    info = np.iinfo(kind)
    if kind == "int16" or rng.random() < 0.4:
        return np.array(0 if kind != "uint8" else rng.choice([0, 128]), kind)
    return np.array(rng.integers(info.min, info.max, endpoint=True), kind)


def far(chip: str, seeds: Iterable[int], folder: Path) -> tuple[int, list[str]]:
    """How many results were compared, those that are too far off, and those that the file computes otherwise."""
    is_exact = "int8-asym" in Registry().get("tpuc.chips", chip).description.modes
    count, found = 0, list[str]()
    for seed in seeds:
        cases, path = draw(seed), folder / "slopes.onnx"
        onnx.save(cases.model(), path)
        session = Session(chip=chip, quantize="int8")
        try:
            built = session.build(session.transform(path))
        except TpucError as error:
            found.append(f"{seed}: {error}")
            continue
        results = [off for off in compared(cases, built.module) if off.op != "input"]
        count += len(results)
        assert len(results) == TOGETHER
        for off in results:
            if off.steps > most(off, is_exact=is_exact):
                found.append(f"{off.op} {off.name} of {seed}: {off.steps:.2f} (own {off.own:.2f})")
        stored = as_stored(inputs_of(built.module), dict(cases.inputs))
        simulated = session.chip.load(built.data).run(stored)
        for name, wanted in Interpreter(built.module).run(stored).items():
            off = np.abs(simulated[name].reshape(wanted.shape).astype(np.float64) - wanted).max()
            if off > (FUNCTIONS * np.abs(wanted).max() if wanted.dtype.kind == "f" else 0):
                found.append(f"{name} of {seed}: simulated")
    return count, found


@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_slopes_and_limits_give_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    seeds = SEEDS.get(chip, (0,))
    assert far(chip, seeds, tmp_path) == (TOGETHER * len(seeds), [])


@pytest.mark.filterwarnings("ignore::tpuc.Remark")  # of the mode that the network states
@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x")])
def test_a_function_alone_between_casts_once_its_body_is_folded(chip: str, tmp_path: Path) -> None:
    """Celu with alpha 1 is an Elu, beside products with 1 that are removed later than casts are."""
    graph, x = Graph(), np.random.default_rng(3).normal(0.2, 1, (1, 4, 5, 6)).astype(np.float32)
    read = graph.stored("x", 0.02, np.int8(0))
    result = graph.stored(graph.do("Celu", [read], "y"), 0.015, np.int8(0))
    model, path = graph.model({"x": x.shape}, {result: x.shape}), tmp_path / "celu.onnx"
    onnx.save(model, path)
    (got,) = tpuc.load(path).compile(chip).run({"x": x}).values()
    assert np.abs(got - runtime(model, {"x": x})[result]).max() <= EXACT * 0.015


@pytest.mark.slow
@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_two_thousand_slopes_and_limits_give_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    count, found = far(chip, range(100, 268), tmp_path)
    assert count > 2000
    assert found == []
