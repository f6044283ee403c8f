"""A network whose casts state its quantization, on chips: what ONNX Runtime gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.interpreter import Interpreter
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_ops import tpu

Array = NDArray[Any]


class Network:
    """Nodes and constants of a graph in the making."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: Array) -> str:
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def do(self, op: str, inputs: list[str], result: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [result], name=result, **attributes))
        return result

    def scaled(self, name: str, scale: float, zero: Array) -> list[str]:
        return [
            self.constant(f"{name}_scale", np.array(scale, np.float32)),
            self.constant(f"{name}_zero", zero),
        ]

    def stored(self, value: str, scale: float, zero: int) -> str:
        """The value through unsigned bytes."""
        parameters = self.scaled(value, scale, np.array(zero, np.uint8))
        quantized = self.do("QuantizeLinear", [value, *parameters], f"{value}_q")
        return self.do("DequantizeLinear", [quantized, *parameters], f"{value}_dq")

    def weight(self, name: str, array: Array, scale: float, zero: int = 0) -> str:
        parameters = self.scaled(name, scale, np.array(zero, array.dtype))
        return self.do("DequantizeLinear", [self.constant(f"{name}_i", array), *parameters], name)


def residual(folder: Path, kind: type[np.integer[Any]]) -> Path:
    """A padded convolution, one beside a shortcut, their sum, an average and a product; filters of the given type."""
    low, high, zero = (-127, 127, 0) if kind is np.int8 else (0, 255, 90)
    net, random = Network(), np.random.default_rng(7)

    def filters(name: str, *shape: int, scale: float) -> str:
        return net.weight(name, random.integers(low, high, shape, kind, endpoint=True), scale, zero)

    def bias(name: str, count: int, scale: float) -> str:
        return net.weight(name, random.integers(-4000, 4000, count).astype(np.int32), scale)

    x = net.stored("x", 0.04, 128)
    a = net.do("Conv", [x, filters("w1", 40, 4, 3, 3, scale=0.01), bias("b1", 40, 0.0004)], "a", pads=[1, 1, 1, 1])
    a = net.stored(net.do("Relu", [a], "ar"), 0.05, 0)
    d = net.do("Conv", [a, filters("w2", 40, 1, 3, 3, scale=0.02)], "d", pads=[1, 1, 1, 1], group=40)
    d = net.stored(d, 0.11, 117)
    s = net.stored(net.do("Add", [a, d], "s"), 0.13, 101)
    c = net.stored(net.do("Conv", [s, filters("w3", 24, 40, 1, 1, scale=0.01)], "c"), 0.3, 131)
    m = net.stored(net.do("GlobalAveragePool", [c], "m"), 0.09, 120)
    f = net.do("Flatten", [m], "f")
    y = net.stored(net.do("Gemm", [f, filters("w4", 24, 10, scale=0.01)], "g"), 0.08, 128)
    return saved(net, y, [1, 10], folder / f"residual_{kind.__name__}.onnx")


def joined(folder: Path) -> Path:
    """Convolutions whose results are moved and joined, each with a scale of its own."""
    net, random = Network(), np.random.default_rng(8)
    x, parts = net.stored("x", 0.04, 128), []
    for name, scale, zero in (("a", 0.21, 78), ("b", 0.33, 201)):
        filters = net.weight(f"{name}_w", random.integers(-127, 127, (6, 4, 1, 1), np.int8), 0.01)
        part = net.stored(net.do("Conv", [x, filters], name), scale, zero)
        parts.append(net.do("Transpose", [part], f"{name}_moved", perm=[0, 2, 3, 1]))
    y = net.stored(net.do("Concat", parts, "c", axis=1), 0.33, 180)
    return saved(net, y, [1, 18, 7, 6], folder / "joined.onnx")


def gated(folder: Path) -> Path:
    """A convolution times a function of it, with a convolution behind that."""
    net, random = Network(), np.random.default_rng(9)
    x = net.stored("x", 0.04, 128)
    a = net.do("Conv", [x, net.weight("w1", random.integers(-127, 127, (6, 4, 1, 1), np.int8), 0.01)], "a")
    a = net.stored(a, 0.21, 118)
    m = net.stored(net.do("Mul", [a, net.stored(net.do("Sigmoid", [a], "g"), 1 / 256, 0)], "m"), 0.12, 9)
    c = net.do("Conv", [m, net.weight("w2", random.integers(-127, 127, (5, 6, 1, 1), np.int8), 0.01)], "c")
    return saved(net, net.stored(c, 0.2, 128), [1, 5, 9, 7], folder / "gated.onnx")


def nearly_bytes(folder: Path) -> Path:
    """A convolution of unsigned filters of which one number less their zero point is no byte."""
    net, random = Network(), np.random.default_rng(10)
    x = net.stored("x", 0.04, 128)
    a = net.do("Conv", [x, net.weight("w1", random.integers(-127, 127, (64, 4, 1, 1), np.int8), 0.01)], "a")
    a = net.stored(net.do("Relu", [a], "ar"), 0.05, 0)
    filters = random.integers(0, 237, (96, 64, 1, 1), np.uint8, endpoint=True)
    filters[70, 33] = 250
    y = net.do("Relu", [net.do("Conv", [a, net.weight("w2", filters, 0.01, 110)], "c")], "y")
    return saved(net, net.stored(y, 0.25, 0), [1, 96, 9, 7], folder / "nearly_bytes.onnx")


def saved(net: Network, output: str, shape: list[int], path: Path) -> Path:
    graph = helper.make_graph(
        net.nodes,
        path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 9, 7])],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)],
        net.constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path


CHIPS = pytest.mark.parametrize(
    "chip", [pytest.param(chip, marks=pytest.mark.chip(chip)) for chip in ("bm1684x", "cv183x")]
)


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
@CHIPS
def test_answers_are_those_of_the_runtime(chip: str, kind: type[np.integer[Any]], tmp_path: Path) -> None:
    off = steps_off(chip, residual(tmp_path, kind), 0.08)
    # A sum of two scales is rounded in whole numbers of 22 bits, on CV183x of nine or ten: nearer to a half than that,
    # it may be the other. Zero points in biases of CV183x are as near.
    assert (off < 1e-3).mean() > (0.99 if chip == "bm1684x" else 0.9)
    assert off.max() < (1.01 if chip == "bm1684x" else 2.01)


@CHIPS
def test_joined_values_are_those_of_the_runtime(chip: str, tmp_path: Path) -> None:
    off = steps_off(chip, joined(tmp_path), 0.33)
    # Integers with a zero point leave CV183x through bf16, which is up to half a step.
    assert (off < (0.01 if chip == "bm1684x" else 0.51)).mean() > 0.999
    assert off.max() < 1.51


@pytest.mark.chip("cv183x")
def test_products_with_functions_of_a_tensor_are_those_of_the_runtime(tmp_path: Path) -> None:
    off = steps_off("cv183x", gated(tmp_path), 0.2)
    # Results around zero point 128 leave through bf16, whose eight bits hold them.
    assert (off < 0.51).mean() > 0.999
    assert off.max() < 1.51


def steps_off(chip: str, path: Path, step: float) -> Array:
    """How far results are from the runtime's; the simulated file gives what the evaluation does."""
    session = Session(chip=chip, quantize="int8")
    built = session.build(session.transform(path))
    runtime = onnxruntime.InferenceSession(path)
    interpreter = Interpreter(built[0])
    loaded = session.chip.load(built.data)
    steps: list[Array] = []
    (given,) = inputs_of(built[0])
    for seed in range(12):
        x = (np.random.default_rng(seed).integers(-128, 128, (1, 4, 9, 7)) * np.float32(0.04)).astype(np.float32)
        if given.store is not None:
            x += np.float32(0.02)  # halves, which the network rounds to even
        (wanted,) = runtime.run(None, {"x": x})
        stored = x if given.store is None else given.store(x)
        (got,) = interpreter.run({given.name: stored}).values()
        (simulated,) = loaded.run({given.name: stored}).values()
        np.testing.assert_array_equal(simulated.reshape(got.shape), got)
        steps.append(np.abs(got - wanted) / step)
    return np.concatenate(steps)


@pytest.mark.chip("cv183x")
def test_one_number_beyond_bytes_costs_no_second_convolution(tmp_path: Path) -> None:
    path = nearly_bytes(tmp_path)
    lowered = Session(chip="cv183x", quantize="int8").build(Session().transform(path)).module
    (product,) = (one.op for one in lowered.walk() if isinstance(one.op, tpu.Conv2D) and one.op.wide)
    assert product.wide == (70, 33)
    off = steps_off("cv183x", path, 0.25)
    assert (off < 0.01).mean() > 0.999
    assert off.max() < 1.01
