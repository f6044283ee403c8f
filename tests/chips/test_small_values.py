"""Networks in int8 whose values or weights are far below 1: as exact as those of values around 1."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
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

X = (1, 4, 12, 12)
CHIPS = ("bm1684x", "cv186x", "cv183x", "cv181x", "c")
STEPS = 3.0
"""Of an 8-bit result: operand, weights and result are rounded, and sums of many cancel."""
MOST_OFF = 0.01
"""Part of the results that may be further off, where errors of a sum add up."""
QUICK = (("bm1684x", -8.0), ("cv183x", -8.0))
EXPONENTS = (-5.0, -6.5, -8.0, -12.0, -16.0, -24.0, -30.0)


def network(scale: float, chip: str) -> onnx.ModelProto:
    """Ops side by side on `x`, whose numbers are as large as `scale`, and products with weights of `scale` on `u`."""
    random = np.random.default_rng(5)
    nodes: list[onnx.NodeProto] = []
    constants: list[onnx.TensorProto] = []
    outputs: list[str] = []

    def constant(array: Array | float) -> str:
        constants.append(numpy_helper.from_array(np.asarray(array, np.float32), f"c{len(constants)}"))
        return constants[-1].name

    def normal(*dims: int, size: float = 1.0) -> str:
        return constant(random.normal(size=dims) * size)

    def op(kind: str, *operands: str, keep: bool = True, **attributes: Any) -> str:
        name = f"v{len(nodes)}_{kind}"
        nodes.append(helper.make_node(kind, operands, [name], **attributes))
        outputs.extend([name] if keep else [])
        return name

    some = np.abs(random.normal(size=(1, 4, 1, 1))) + 0.5
    convolved = op("Conv", "x", normal(8, 4, 3, 3, size=0.2), normal(8, size=scale))
    op("Conv", op("Relu", convolved), normal(6, 8, 1, 1, size=0.3))
    op("Conv", "x", normal(4, 1, 3, 3, size=0.3), group=4)
    op("MatMul", "x", normal(12, 8, size=0.2))
    op("Gemm", op("Flatten", "x", keep=False), normal(576, 30, size=0.05), normal(30, size=scale))
    if chip != "c":
        op("ConvTranspose", "x", normal(4, 6, 2, 2, size=0.3), strides=[2, 2])
    op("Conv", "u", normal(8, 4, 3, 3, size=scale))
    op("MatMul", op("Relu", "u", keep=False), normal(12, 8, size=scale))
    op("Add", "x", normal(1, 4, 1, 1, size=scale))
    op("Mul", "x", constant(3e-4))
    op("Relu", op("Mul", "x", constant(some), keep=False))
    op("Sub", "x", op("Relu", "x"))
    op("Concat", "x", op("LeakyRelu", "x", alpha=0.25), axis=1)
    op("Add", "x", op("Abs", "x"))
    op("Max", "x", constant(-scale / 3))
    op("Clip", "x", constant(-scale), constant(scale / 2))
    op("PRelu", "x", constant(np.abs(random.normal(size=(4, 1, 1))) / 2))
    op(
        "BatchNormalization",
        "x",
        constant(some.ravel()),
        normal(4, size=scale),
        normal(4, size=scale),
        constant(some.ravel()),
    )
    op("AveragePool", "x", kernel_shape=[2, 2], strides=[2, 2])
    op("MaxPool", "x", kernel_shape=[3, 3], strides=[1, 1])
    op("ReduceMean", op("Abs", "x"), axes=[1], keepdims=1)
    op("ReduceMax", "x", axes=[1], keepdims=1)
    op("Sigmoid", op("Mul", "x", constant(1 / scale)))
    op("Transpose", op("Neg", "x"), perm=[0, 2, 3, 1])
    op("Slice", "x", *(numbers(constants, index, [number]) for index, number in enumerate((0, 2, 1))))
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, X) for name in ("x", "u")]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "small", given, results, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def numbers(constants: list[onnx.TensorProto], index: int, values: Sequence[int]) -> str:
    """A constant of integers."""
    constants.append(numpy_helper.from_array(np.array(values, np.int64), f"i{index}"))
    return constants[-1].name


def offenders(scale: float, chip: str, folder: Path) -> tuple[int, list[str]]:
    """How many results were compared with ONNX Runtime's, and the outputs that are too far off."""
    model = network(scale, chip)
    onnx.save(model, folder / "small.onnx")
    random = np.random.default_rng(7)
    samples = {name: random.normal(size=(4, *X)).astype(np.float32) for name in ("x", "u")}
    samples["x"] *= np.float32(scale)
    feed = {name: array[0] for name, array in samples.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString())
    names = [info.name for info in session.get_outputs()]
    wanted = dict(zip(names, session.run(None, feed), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = tpuc.load(folder / "small.onnx").quantize(samples, method="max").compile(chip).run(feed)
    count, bad = 0, list[str]()
    for name, expected in wanted.items():
        result = next(array for key, array in got.items() if key.removesuffix("_f32") == name).reshape(expected.shape)
        step = float(np.abs(expected).max()) / 127
        off = np.abs(result.astype(np.float64) - expected) / step
        count += off.size
        if np.isnan(off).any() or np.mean(off > STEPS) > MOST_OFF or not np.abs(result).max() > 50 * step:
            bad.append(f"{name}: {off.max():.1f} steps, {np.mean(off > STEPS):.1%} beyond {STEPS:g}")
    return count, bad


@each(
    ("chip", "exponent"),
    [
        pytest.param(
            chip,
            e,
            marks=[pytest.mark.chip(chip), *([] if (chip, e) in QUICK else [pytest.mark.slow])],
            id=f"{chip}{e}",
        )
        for chip in CHIPS
        for e in EXPONENTS
    ],
)
def test_small_values_are_as_exact_as_others(chip: str, exponent: float, tmp_path: Path) -> None:
    count, bad = offenders(10.0**exponent, chip, tmp_path)
    assert count >= 2000
    assert bad == []


@each("chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in CHIPS])
def test_a_difference_of_equals_keeps_within_its_range(chip: str, tmp_path: Path) -> None:
    """One step of the operands is a million times the whole result."""
    nodes = [helper.make_node("Mul", ["x", "k"], ["p"]), helper.make_node("Sub", ["p", "x"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "equals",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, X)],
        [numpy_helper.from_array(np.float32(1 + 1e-7), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "equals.onnx")
    samples = np.random.default_rng(3).normal(size=(4, *X)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (got,) = tpuc.load(tmp_path / "equals.onnx").quantize(samples).compile(chip).run(samples[0]).values()
    assert np.abs(got).max() <= np.abs(samples).max() / 64
