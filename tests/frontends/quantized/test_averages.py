"""Averages of one scale lie on halves often; away from halves their integers are exact.

On a half, ONNX Runtime depends on the order of float sums, chips also on the zero point: they may differ
by one step, and a Relu that rescales makes two of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tpuc

from tests.families import each
from tests.frontends.quantized.clipping import Array, Graph, runtime

CASES = 12


def _drawn(graph: Graph, plain: Graph, name: str, random: np.random.Generator) -> Array:
    """Write a stored average to `graph`, the same of whole numbers to `plain`; returns the whole numbers."""
    dims = (int(random.integers(1, 3)), 4, *(int(one) for one in random.integers(4, 9, 2)))
    point, scale = int(random.choice([0, 100, 128])), float(np.float32(random.uniform(0.005, 0.05)))
    whole = (random.integers(0, 256, dims) - point).astype(np.float32)
    kernel = [int(one) for one in random.integers(1, 4, 2)]
    more: dict[str, Any] = {
        "kernel_shape": kernel,
        "strides": [int(random.integers(1, 3))] * 2,
        "count_include_pad": int(random.integers(2)),
        "pads": [int(random.integers(max(kernel[index % 2], 1))) for index in range(4)],
    }
    op, more = ("GlobalAveragePool", {}) if random.random() < 0.3 else ("AveragePool", more)
    plain.do(op, [name], f"{name}_mean", **more)
    value = graph.do(op, [graph.stored(name, scale, np.uint8(point))], f"{name}_mean", **more)
    graph.stored(value, scale, np.uint8(point))
    return whole


@pytest.mark.filterwarnings("ignore::tpuc.Remark")
@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "c")])
def test_averages_are_exact_away_from_halves(chip: str, tmp_path: Path) -> None:
    random, graph, plain = np.random.default_rng(0), Graph(), Graph()
    whole = {f"v{index}": _drawn(graph, plain, f"v{index}", random) for index in range(CASES)}
    dims = {name: array.shape for name, array in whole.items()}
    exact = runtime(plain.model(dims, {f"{name}_mean": () for name in whole}), whole)
    outputs = {f"{name}_mean_dq": exact[f"{name}_mean"].shape for name in whole}
    path = tmp_path / "averages.onnx"
    onnx.save(graph.model(dims, outputs), path)
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in graph.constants}
    given = {name: array * constants[f"{name}_scale"] for name, array in whole.items()}
    got = tpuc.load(path).compile(chip).run(given)
    for name in whole:
        wanted = exact[f"{name}_mean"].astype(np.float64)
        steps = np.rint(got[f"{name}_mean_dq"].reshape(wanted.shape) / constants[f"{name}_mean_scale"])
        is_half = np.abs(np.abs(wanted - np.trunc(wanted)) - 0.5) < 1e-4
        assert np.array_equal(steps[~is_half], np.rint(wanted)[~is_half]), name
        assert np.abs(steps - wanted).max() <= 0.5001, name
