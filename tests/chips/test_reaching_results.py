"""Float networks in int8 with ops whose results lie beyond their operand's: values are ONNX Runtime's."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tpuc
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from tests.families import each

Array = NDArray[Any]

CHIPS = ("bm1684x", "cv181x", "cv183x", "c")
QUICK = ("bm1684x", "cv181x")
SHAPES = ((2, 12), (2, 8, 7), (2, 3, 4, 5))
STEPS = 2.0
"""Of the result: half of one, half of the operand's times the slope that made the range, and a multiplier of a byte."""


def network(seed: int, count: int) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """Ops side by side on an input each, and three samples of every input."""
    rng = np.random.default_rng(seed)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    inputs: dict[str, Array] = {}

    def constant(name: str, array: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    for index in range(count):
        dims, x, y = SHAPES[int(rng.integers(3))], f"x{index}", f"y{index}"
        size = float(rng.choice([0.01, 1.0, 20.0]))
        inputs[x] = (rng.normal(0, size, (3, *dims))).astype(np.float32)
        number = np.float32(size * rng.choice([-1, 1]) * rng.uniform(1, 20))
        match index % 5:
            case 0:
                alpha = float(rng.choice([-1, 1]) * rng.choice([0.0, 0.3, rng.uniform(1, 8), rng.uniform(50, 900)]))
                nodes.append(helper.make_node("LeakyRelu", [x], [y], alpha=alpha))
            case 1:
                slopes = slopes_of(rng, dims[1])
                rows = constant(f"s{index}", slopes.reshape(-1, *(1,) * (len(dims) - 2)))
                nodes.append(helper.make_node("PRelu", [x, rows], [y]))
            case 2 | 3:
                kind = "Max" if index % 5 == 2 else "Min"
                nodes.append(helper.make_node(kind, [x, constant(f"c{index}", number)], [y]))
            case _:
                pads = constant(f"p{index}", np.array([0] * (2 * len(dims) - 1) + [2], np.int64))
                nodes.append(helper.make_node("Pad", [x, pads, constant(f"v{index}", number)], [y]))
        nodes.append(helper.make_node("Identity", [y], [f"{y}_out"]))
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, x.shape[1:]) for name, x in inputs.items()]
    made = [helper.make_tensor_value_info(f"y{index}_out", TensorProto.FLOAT, None) for index in range(count)]
    graph = helper.make_graph(nodes, "reaching", given, made, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), inputs


def slopes_of(rng: np.random.Generator, channels: int) -> Array:
    """One per channel: all alike, of mixed magnitudes, below 0, or none."""
    signs = rng.choice([-1, 1], channels)
    choices = (rng.uniform(1, 8, channels), 10 ** rng.uniform(-3, 2, channels) * signs, rng.normal(0, 1, channels))
    return np.asarray((*choices, -choices[0], np.zeros(channels))[int(rng.integers(5))], np.float32)


def offenders(seed: int, count: int, chip: str, folder: Path) -> list[str]:
    """Results that are too far off, of a sample that calibration saw."""
    model, samples = network(seed, count)
    onnx.save(model, folder / "reaching.onnx")
    feed = {name: array[0] for name, array in samples.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [info.name for info in session.get_outputs()]
    every = [session.run(None, {name: x[index] for name, x in samples.items()}) for index in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = tpuc.load(folder / "reaching.onnx").quantize(samples, method="max", bias_num=0).compile(chip).run(feed)
    bad: list[str] = []
    for index, name in enumerate(names):
        wanted = np.asarray(every[0][index])
        result = next(array for key, array in got.items() if key.removesuffix("_f32") == name).reshape(wanted.shape)
        step = max(float(np.abs(one[index]).max()) for one in every) / 127
        off = float(np.abs(result.astype(np.float64) - wanted).max()) / max(step, 1e-12)
        if not off <= STEPS:
            bad.append(f"{model.graph.node[2 * index].op_type} {index} of {seed}: {off:.1f} steps")
    return bad


@each(
    "chip",
    [
        pytest.param(chip, marks=[pytest.mark.chip(chip), *([] if chip in QUICK else [pytest.mark.slow])])
        for chip in CHIPS
    ],
)
def test_results_beyond_the_operands_range_are_not_cut_off(chip: str, tmp_path: Path) -> None:
    assert offenders(0, 30, chip, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_two_hundred_ops_are_not_cut_off(chip: str, tmp_path: Path) -> None:
    assert [one for seed in range(1, 6) for one in offenders(seed, 40, chip, tmp_path)] == []
