"""Small constants that keep divisors, roots and logarithms above 0 do so in every mode, also of zeros."""

from __future__ import annotations

import warnings
from collections.abc import Callable
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

X = (1, 8, 6, 7)
RUNS = (
    *((chip, mode) for chip in ("bm1684x", "cv186x") for mode in ("f32", "f16", "bf16", "int8")),
    *((chip, mode) for chip in ("cv183x", "cv181x") for mode in ("bf16", "int8")),
    *(("c", mode) for mode in ("f32", "int8")),
)
QUICK = (("bm1684x", "f16"), ("cv183x", "int8"))
TINY = float(np.finfo(np.float32).tiny)
"""The least normal number, a usual epsilon too: reciprocals of less than twice as much are infinite on a chip."""
EPSILONS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-10, 1e-12)
STEP = {"f32": 1e-5, "f16": 2.0**-8, "bf16": 2.0**-4, "int8": 0.05}
"""Of the largest magnitude of an output."""
DECIBELS = {"f32": 90.0, "f16": 45.0, "bf16": 25.0, "int8": 24.0}


class Networks:
    """Forms of normalization side by side on `x`, logarithms and quotients on `p`, which is not negative."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.outputs: list[str] = []

    def number(self, value: Any, dtype: Any = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, kind: str, *operands: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, operands, [name], name, **attributes))
        return name

    def give(self, form: str, value: str) -> None:
        name = f"{form}_{len(self.outputs)}"
        self.nodes.append(helper.make_node("Identity", [value], [name], name))
        self.outputs.append(name)

    def build(self) -> onnx.ModelProto:
        given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, X) for name in ("x", "p")]
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in self.outputs]
        graph = helper.make_graph(self.nodes, "epsilons", given, results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def normalizations(net: Networks, eps: float, axis: int) -> None:
    """A vector along `axis` over its length."""
    op, number = net.op, net.number
    shape = {"axes": [axis], "keepdims": 1}
    norm = op("ReduceL2", "x", **shape)
    e = number(eps)
    net.give("max", op("Div", "x", op("Max", norm, e)))
    net.give("clip", op("Div", "x", op("Clip", norm, e)))
    is_zero = op("Equal", norm, number(0.0))
    net.give("where", op("Div", "x", op("Where", is_zero, e, norm)))
    net.give("expand", op("Div", "x", op("Expand", op("Clip", norm, e), number(X, np.int64))))
    net.give("plus", op("Div", "x", op("Add", norm, e)))
    net.give("plus_row", op("Div", "x", op("Add", norm, number(np.full((1, 1, 1, 1), eps)))))
    sums: dict[str, Callable[[], str]] = {
        "pow": lambda: op("ReduceSum", op("Pow", "x", number(2.0)), axes_of(net, axis), keepdims=1),
        "mul": lambda: op("ReduceMean", op("Mul", "x", "x"), **shape),
        "square": lambda: op("ReduceSumSquare", "x", **shape),
    }
    for form, total in sums.items():
        net.give(f"sqrt_{form}", op("Div", "x", op("Sqrt", op("Add", total(), e))))
    net.give("inverse_root", op("Mul", "x", op("Pow", op("Add", sums["mul"](), e), number(-0.5))))
    net.give("reciprocal", op("Mul", "x", op("Reciprocal", op("Sqrt", op("Add", sums["mul"](), e)))))
    net.give("reciprocal_norm", op("Mul", op("Reciprocal", op("Add", norm, e)), "x"))
    net.give("max_root", op("Div", "x", op("Sqrt", op("Max", sums["square"](), e))))
    net.give("sum_of_magnitudes", op("Div", "x", op("Add", op("ReduceL1", "x", **shape), e)))
    lengths = op("Mul", norm, op("ReduceL2", "p", **shape))
    net.give(
        "cosine", op("Div", op("ReduceSum", op("Mul", "x", "p"), axes_of(net, axis), keepdims=1), op("Max", lengths, e))
    )
    net.give("mean", op("Div", "p", op("Add", e, op("ReduceSum", "p", axes_of(net, axis), keepdims=1))))


def axes_of(net: Networks, axis: int) -> str:
    """A constant of one axis."""
    return net.number([axis], np.int64)


def others(net: Networks, eps: float) -> None:
    """Logarithms, quotients, and normalizations with a constant of their own."""
    op, number, e = net.op, net.number, net.number(eps)
    net.give("log", op("Log", op("Add", "p", e)))
    net.give("log_clip", op("Log", op("Clip", "p", e)))
    net.give("log_max", op("Neg", op("Log", op("Max", e, "p"))))
    net.give("ratio", op("Div", op("Mul", "x", "p"), op("Add", "p", e)))
    net.give("ratio_of_squares", op("Div", op("Mul", "p", "p"), op("Add", op("Mul", "p", "p"), e)))
    deviation = op("Sub", "x", op("ReduceMean", "x", axes=[-1], keepdims=1))
    variance = op("ReduceMean", op("Pow", deviation, number(2.0)), axes=[-1], keepdims=1)
    net.give("layer", op("Div", deviation, op("Sqrt", op("Add", variance, e))))
    ones, zeros = np.ones(X[-1]), np.zeros(X[-1])
    net.give("layer_op", op("LayerNormalization", "x", number(ones), number(zeros), axis=-1, epsilon=eps))
    weights = number(np.ones(X[1])), number(np.zeros(X[1]))
    net.give("instance", op("InstanceNormalization", "x", *weights, epsilon=eps))


def samples(count: int) -> dict[str, Array]:
    """With vectors of zeros along every axis, and a plane of them."""
    random = np.random.default_rng(11)
    x = random.normal(size=(count, *X))
    x[:, :, :, 2] = x[:, :, 1, :] = x[:, :, :, :, 3] = 0
    x[:, :, 4] = 0
    return {"x": x.astype(np.float32), "p": np.abs(x).astype(np.float32)}


def decibels(got: Array, wanted: Array) -> float:
    noise = float(((got.astype(np.float64) - wanted) ** 2).sum())
    return np.inf if noise == 0 else 10 * np.log10(float((wanted.astype(np.float64) ** 2).sum()) / noise)


def offenders(chip: str, mode: str, eps: float, folder: Path) -> tuple[int, list[str]]:
    """Results compared with ONNX Runtime's, and the outputs that are not finite or too far off."""
    net = Networks()
    for axis in (1, 3):
        normalizations(net, eps, axis)
    others(net, eps)
    model = net.build()
    onnx.save(model, folder / "epsilons.onnx")
    given = samples(4)
    feed = {name: array[0] for name, array in given.items()}
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(net.outputs, feed)
    network = tpuc.load(folder / "epsilons.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if mode == "int8":
            compiled = network.quantize(given, method="max").compile(chip)
        else:
            compiled = network.compile(chip, mode=mode)
        results = {name.removesuffix("_f32"): array for name, array in compiled.run(feed).items()}
    count, bad = 0, list[str]()
    for name, expected in zip(net.outputs, wanted, strict=True):
        got = results[name].reshape(expected.shape)
        count += got.size
        off = float(np.abs(got - expected).max() / np.abs(expected).max())
        if not np.isfinite(got).all() or not decibels(got, expected) >= DECIBELS[mode]:
            bad.append(f"{name}: {off:.3g} of the largest, {decibels(got, expected):.1f} dB")
    return count, bad


@each(
    ("chip", "mode", "eps"),
    [
        pytest.param(
            *(chip, mode, eps),
            marks=[pytest.mark.chip(chip), *([] if (chip, mode) in QUICK and eps == 1e-8 else [pytest.mark.slow])],
            id=f"{chip}-{mode}-{eps:g}",
        )
        for chip, mode in RUNS
        for eps in EPSILONS
    ],
)
def test_epsilons_keep_quotients_and_logarithms_finite(chip: str, mode: str, eps: float, tmp_path: Path) -> None:
    count, bad = offenders(chip, mode, eps, tmp_path)
    assert count >= 2000
    assert bad == []


@each(
    ("chip", "mode"),
    [pytest.param(*one, marks=pytest.mark.chip(one[0])) for one in (("bm1684x", "f16"), ("cv181x", "bf16"))],
)
def test_the_least_number_is_an_epsilon(chip: str, mode: str, tmp_path: Path) -> None:
    count, bad = offenders(chip, mode, TINY, tmp_path)
    assert count >= 2000
    assert bad == []


@pytest.mark.chip("cv181x")
def test_a_remark_names_the_least_divisor(tmp_path: Path) -> None:
    net = Networks()
    net.give("ratio", net.op("Div", "x", net.op("Add", "p", net.number(1e-20))))
    onnx.save(net.build(), tmp_path / "ratio.onnx")
    with pytest.warns(match=r"cv181x cannot divide by less than 1.08e-19 .*: 1 constant that .* becomes 1.08e-19$"):
        tpuc.load(tmp_path / "ratio.onnx").compile("cv181x", mode="bf16")
