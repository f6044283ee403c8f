"""Single operators against LiteRT, where the package ai-edge-litert is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc_tflite.engine import ENGINE

from tests.frontends.tflite.files import RELU6, SAME, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, read, stored, values

litert = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")

Array = NDArray[Any]
Options = tuple[str, dict[str, Any]] | None
SHAPE = (1, 9, 7, 6)
GEOMETRY = {"Padding": SAME, "StrideH": 2, "StrideW": 2}


def run_litert(content: bytes, resolver: str, *inputs: Array) -> list[Array]:
    """The outputs by LiteRT's own kernels (BUILTIN_REF) or those that it chooses by default (AUTO)."""
    kind = getattr(litert.OpResolverType, resolver)
    interpreter = litert.Interpreter(model_content=content, experimental_op_resolver_type=kind, num_threads=1)
    interpreter.allocate_tensors()
    for detail, x in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def tensor(kind: str, name: str, scale: float, zero: int, shape: tuple[int, ...] = SHAPE) -> Tensor:
    return Tensor(name, shape, kind, None, (scale,), (zero + (128 if kind == "UINT8" else 0),))


def check(folder: Path, op: str, operands: list[Tensor], result: Tensor, options: Options, resolver: str) -> None:
    names = [operand.name for operand in operands]
    inputs = [operand for operand in operands if operand.data is None]
    content = tflite_file(
        [*operands, result], [Node(op, names, [result.name], options)], [t.name for t in inputs], [result.name]
    )
    fed = [stored(t.kind.lower(), *t.shape, seed=i) for i, t in enumerate(inputs)]
    (expected,) = run_litert(content, resolver, *fed)
    (ours,) = compute(read(content, folder), *fed)
    np.testing.assert_array_equal(ours, expected)


BINARY = {
    "ADD": ("AddOptions", {}),
    "SUB": ("SubOptions", {}),
    "MUL": ("MulOptions", {"FusedActivationFunction": RELU6}),
}
UNARY: dict[str, tuple[float, int, Options]] = {
    "LOGISTIC": (1 / 256, -128, None),
    "TANH": (1 / 128, 0, None),
    "RELU": (0.03, -7, None),
    "RELU6": (0.03, -7, None),
    "RELU_N1_TO_1": (0.03, -7, None),
    "HARD_SWISH": (0.03, -7, None),
    "LEAKY_RELU": (0.03, -7, ("LeakyReluOptions", {"Alpha": 0.1})),
    "GELU": (0.03, -7, ("GeluOptions", {})),
    "SOFTMAX": (1 / 256, -128, ("SoftmaxOptions", {"Beta": 1.0})),
    "QUANTIZE": (0.031, 7, ("QuantizeOptions", {})),
}
each_kind = pytest.mark.parametrize("kind", ["INT8", "UINT8"])


@each_kind
@pytest.mark.parametrize("op", UNARY)
def test_functions(op: str, kind: str, tmp_path: Path) -> None:
    scale, zero, options = UNARY[op]
    check(tmp_path, op, [tensor(kind, "x", 0.05, 3)], tensor(kind, "y", scale, zero), options, "BUILTIN_REF")


@each_kind
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("other", [SHAPE, (1, 1, 1, 6)])
def test_arithmetic(op: str, other: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    operands = [tensor(kind, "x", 0.05, 3), tensor(kind, "w", 0.031, 14, other)]
    check(tmp_path, op, operands, tensor(kind, "y", 0.07, -2), BINARY[op], "BUILTIN_REF")


@each_kind
@pytest.mark.parametrize(("axes", "shape"), [((1, 2), (1, 6)), ((3,), (1, 9, 7)), ((2,), (1, 9, 6))])
def test_means(axes: tuple[int, ...], shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    operands = [tensor(kind, "x", 0.05, 3), constant("a", np.array(axes, np.int32))]
    options = ("ReducerOptions", {"KeepDims": False})
    check(tmp_path, "MEAN", operands, tensor(kind, "y", 0.04, -1, shape), options, "BUILTIN_REF")


@pytest.mark.parametrize(("centred", "corners"), [(0, 0), (1, 0), (0, 1)])
def test_bilinear_resizing(centred: int, corners: int, tmp_path: Path) -> None:
    operands = [tensor("INT8", "x", 0.05, 3), constant("s", np.array([13, 20], np.int32))]
    options = ("ResizeBilinearOptions", {"HalfPixelCenters": centred, "AlignCorners": corners})
    check(tmp_path, "RESIZE_BILINEAR", operands, tensor("INT8", "y", 0.05, 3, (1, 13, 20, 6)), options, "BUILTIN_REF")


@each_kind
@pytest.mark.parametrize("op", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
def test_pools(op: str, kind: str, tmp_path: Path) -> None:
    options = ("Pool2DOptions", {**GEOMETRY, "FilterHeight": 3, "FilterWidth": 3})
    check(tmp_path, op, [tensor(kind, "x", 0.05, 3)], tensor(kind, "y", 0.05, 3, (1, 5, 4, 6)), options, "BUILTIN_REF")


def filters(kind: str, shape: tuple[int, ...], axis: int) -> list[Tensor]:
    """Per channel and symmetric for int8, one scale and a zero point for uint8; and the bias."""
    rng, channels = np.random.default_rng(2), shape[axis]
    scales = rng.uniform(0.001, 0.01, channels).tolist() if kind == "INT8" else [0.004]
    weight = stored(kind.lower(), *shape, seed=3)
    zeros = (0 if kind == "INT8" else 120,) * len(scales)
    bias = rng.integers(-3000, 3000, channels).astype(np.int32)
    return [constant("w", weight, scales, zeros, axis), constant("b", bias, [0.05 * s for s in scales])]


@each_kind
def test_products(kind: str, tmp_path: Path) -> None:
    x = tensor(kind, "x", 0.05, 3)
    y = tensor(kind, "y", 0.5, -9, (1, 5, 4, 8))
    check(tmp_path, "CONV_2D", [x, *filters(kind, (8, 3, 3, 6), 0)], y, ("Conv2DOptions", GEOMETRY), "AUTO")
    y = tensor(kind, "y", 0.2, -9, (1, 5, 4, 6))
    options = ("DepthwiseConv2DOptions", {**GEOMETRY, "DepthMultiplier": 1})
    check(tmp_path, "DEPTHWISE_CONV_2D", [x, *filters(kind, (1, 3, 3, 6), 3)], y, options, "AUTO")
    x, y = tensor(kind, "x", 0.05, 3, (40, 20)), tensor(kind, "y", 0.2, -9, (40, 5))
    weight, bias = filters("UINT8" if kind == "UINT8" else "INT8", (5, 20), 0)
    if kind == "INT8":  # one scale for all rows, as most converters write it
        weight = constant("w", weight.data, [0.004], [0])
        bias = constant("b", bias.data, [0.0002])
    check(tmp_path, "FULLY_CONNECTED", [x, weight, bias], y, ("FullyConnectedOptions", {}), "AUTO")


def test_every_tensor_in_our_order(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", (1, 4, 5, 3)),
        constant("p", np.array([0, 2, 1, 3], np.int32)),
        Tensor("t", (1, 5, 4, 3)),
        Tensor("a", (1, 5, 4, 3)),
        constant("s", np.array([1, 4, 3, 5], np.int32)),
        Tensor("r", (1, 4, 3, 5)),
        Tensor("b", (1, 4, 3, 5)),
        Tensor("y", (1, 4, 3, 5)),
    ]
    nodes = [
        Node("TRANSPOSE", ["x", "p"], ["t"], ("TransposeOptions", {})),
        Node("TANH", ["t"], ["a"]),
        Node("RESHAPE", ["a", "s"], ["r"], ("ReshapeOptions", {})),
        Node("ABS", ["r"], ["b"]),
        Node("LOGISTIC", ["b"], ["y"]),
    ]
    content = tflite_file(tensors, nodes, ["x"], ["y"])
    module = read(content, tmp_path)
    x = values(1, 3, 4, 5)
    ours = Interpreter(module).run({"x": x}, "all")
    theirs = ENGINE.run(tmp_path / "network.tflite", {"x": x})
    assert {"a", "b", "y"} <= ours.keys() & theirs.keys()
    for name in ours.keys() & theirs.keys():
        np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6, atol=1e-6)
