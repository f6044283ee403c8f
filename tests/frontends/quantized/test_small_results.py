"""Stated results whose steps are far smaller than those of their operands, on chips with multipliers below 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from tpuc.api import Unsupported
from tpuc_driver.session import Session

from tests.frontends.quantized.clipped import compared, judged
from tests.frontends.quantized.clipping import Cases, Graph, Stored
from tests.models.rows import lower

DIMS = (1, 4, 6, 5)
CHIPS = pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv181x", "cv183x")]
)
LIMITS = {"Mul": 2.01}
"""Steps. Such products are bf16, whose eight bits round both factors and the product."""


class Rows:
    """Ops of two stored inputs each, or of one and a constant, beside each other."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.cases = Cases(Graph(), {}, [], {}, [])

    def stored(self, name: str, op: str, operands: tuple[str, ...], scale: float, dims: Sequence[int]) -> str:
        self.cases.values.append(Stored(name, op, operands, float(np.float32(scale)), tuple(dims)))
        return self.cases.graph.stored(name, scale, np.int8(0))

    def add(self, op: str, scales: Sequence[float], scale: float, dims: tuple[int, ...] = DIMS, **more: Any) -> None:
        """One op on inputs of so few steps that not all results saturate."""
        graph, index = self.cases.graph, len(self.cases.ops)
        reads: list[str] = []
        for place, one in enumerate(scales):
            name = f"v{index}x{place}"
            steps = self.rng.integers(-3, 4, DIMS)
            self.cases.inputs[name] = (steps * np.float32(one)).astype(np.float32)
            reads.append(self.stored(name, "input", (name,), one, DIMS))
        made = graph.do(op, reads, f"v{index}y", **more)
        self.cases.outputs[self.stored(made, op, tuple(reads), scale, dims)] = dims
        self.cases.ops.append(op)


def random_rows(seed: int, count: int) -> Cases:
    """Ratios of scales from what multipliers reach to a thousand."""
    rows = Rows(seed)
    for index in range(count):
        op = ("Add", "Sub", "Mul", "Max", "Min", "Concat")[index % 6]
        first, second = (float(np.float32(rows.rng.uniform(0.3, 2))) for _ in range(2))
        least = first * second if op == "Mul" else max(first, second)
        scale = float(least / rows.rng.uniform(0.5, 60 if op == "Mul" else 1000))
        dims = (1, 8, 6, 5) if op == "Concat" else DIMS
        rows.add(op, (first, second), scale, dims, **({"axis": 1} if op == "Concat" else {}))
    return rows.cases


def far(chip: str, seeds: range, count: int, folder: Path) -> list[Any]:
    found = [off for seed in seeds for off in judged(random_rows(seed, count), chip, folder / "rows.onnx")]
    assert len(found) >= 3 * len(seeds) * count - len(seeds)
    return [off for off in found if off.refused or off.steps > LIMITS.get(off.op, 1.01)]


@CHIPS
def test_results_of_small_steps_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(2), 12, tmp_path) == []


@pytest.mark.slow
@CHIPS
def test_six_hundred_results_of_small_steps_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    assert far(chip, range(10, 20), 60, tmp_path) == []


@pytest.mark.chip("cv181x")
def test_sums_beyond_all_multipliers_are_refused_with_a_way_out(tmp_path: Path) -> None:
    rows = Rows(0)
    rows.add("Add", (1.0, 0.5), 1e-4)
    path, table = tmp_path / "sum.onnx", tmp_path / "modes.txt"
    onnx.save(rows.cases.model(), path)
    with pytest.raises(Unsupported) as error:
        lower(Session().transform(path), "cv181x", None, None)
    assert str(error.value) == (
        "node 'v0y_q': top.Add int8: the operands' scales are 10000, 5000 times that of the result, beyond the chip's "
        "multipliers; quantize the network again with a larger range for the result, or compute the op in bf16 with "
        "--quantize-table"
    )
    table.write_text("v0y_q bf16\n")
    session = Session(chip="cv181x", quantize="int8")
    module = session.build(session.transform(path), quantize_table=table).module
    (result,) = (off for off in compared(rows.cases, module) if off.op == "Add")
    assert result.steps <= 1.01


@pytest.mark.chip("cv181x")
def test_products_without_room_in_their_filters_are_refused_with_a_way_out(tmp_path: Path) -> None:
    graph, path = Graph(), tmp_path / "conv.onnx"
    filters = np.full((2, 4, 1, 1), 1.27, np.float32)
    y = graph.do("Conv", [graph.stored("x", 0.5, np.int8(0)), graph.weight("w", filters, None, "int8")], "y")
    onnx.save(graph.model({"x": DIMS}, {graph.stored(y, 0.001, np.int8(0)): (1, 2, 6, 5)}), path)
    with pytest.raises(Unsupported) as error:
        lower(Session().transform(path), "cv181x", None, None)
    assert str(error.value) == (
        "node 'y_q': top.Conv int8: a step of its sums is up to 5 steps of the result, too many for its filter; "
        "quantize the network again with a larger range for the result"
    )
