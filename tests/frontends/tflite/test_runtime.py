"""Single operators against LiteRT, where the package ai-edge-litert is installed."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.interpreter import Interpreter
from tpuc_importing.obstacles import ImportRefused
from tpuc_tflite.engine import ENGINE

from tests.families import each
from tests.frontends.tflite.files import RELU, RELU6, SAME, TANH, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.lstms import Layer
from tests.frontends.tflite.networks import compute, read, stored, values
from tests.frontends.tflite.test_control import svdf

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
    "GELU by tanh": (0.03, -7, ("GeluOptions", {"Approximate": True})),
    "LOG_SOFTMAX": (16 / 256, 127, ("LogSoftmaxOptions", {})),
    "SOFTMAX": (1 / 256, -128, ("SoftmaxOptions", {"Beta": 1.0})),
    "QUANTIZE": (0.031, 7, ("QuantizeOptions", {})),
}
each_kind = pytest.mark.parametrize("kind", ["INT8", "UINT8"])


@each_kind
@pytest.mark.parametrize("op", UNARY)
def test_functions(op: str, kind: str, tmp_path: Path) -> None:
    scale, zero, options = UNARY[op]
    op = op.removesuffix(" by tanh")
    check(tmp_path, op, [tensor(kind, "x", 0.05, 3)], tensor(kind, "y", scale, zero), options, "BUILTIN_REF")


@each(("op", "zero"), [("ABS", 3), ("EXP", 3), ("LOG", 3), ("RSQRT", -128), ("SQRT", -128)])
def test_functions_of_signed_bytes(op: str, zero: int, tmp_path: Path) -> None:
    x = tensor("INT8", "x", 0.05, zero)
    fed = np.maximum(stored("int8", *SHAPE), -127)
    content = tflite_file([x, tensor("INT8", "y", 0.03, -7)], [Node(op, ["x"], ["y"])], ["x"], ["y"])
    (expected,) = run_litert(content, "BUILTIN_REF", fed)
    np.testing.assert_array_equal(compute(read(content, tmp_path), fed)[0], expected)


@each_kind
@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("other", [SHAPE, (1, 1, 1, 6)])
def test_arithmetic(op: str, other: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    operands = [tensor(kind, "x", 0.05, 3), tensor(kind, "w", 0.031, 14, other)]
    check(tmp_path, op, operands, tensor(kind, "y", 0.07, -2), BINARY[op], "BUILTIN_REF")


@each_kind
@pytest.mark.parametrize("relu", [0, RELU])
def test_quotients(relu: int, kind: str, tmp_path: Path) -> None:
    x, divisor = tensor(kind, "x", 0.05, 3), stored(kind.lower(), *SHAPE, seed=1)
    zero = tensor(kind, "w", 0.031, 14).zeros[0]
    divisor[divisor == zero] += 1
    y = tensor(kind, "y", 0.3, -2)
    options = ("DivOptions", {"FusedActivationFunction": relu})
    node = Node("DIV", ["x", "w"], ["y"], options)
    content = tflite_file([x, constant("w", divisor, [0.031], [zero]), y], [node], ["x"], ["y"])
    fed = stored(kind.lower(), *SHAPE)
    (expected,) = run_litert(content, "BUILTIN_REF", fed)
    ratio = 0.05 * (fed.astype(float) - x.zeros[0]) / (0.031 * 0.3 * (divisor.astype(float) - zero))
    # The runtime shifts small quotients by more bits than an int32 has, which C++ does not define.
    defined = np.abs(ratio) >= 0.5
    (ours,) = compute(read(content, tmp_path), fed)
    np.testing.assert_array_equal(ours[defined], expected[defined])
    assert (ours[~defined] == y.zeros[0]).all()
    assert defined.mean() > 0.8


@each_kind
def test_moves(kind: str, tmp_path: Path) -> None:
    x, w, y = (tensor(kind, name, 0.05, 3) for name in "xwy")
    condition = constant("c", np.arange(9 * 7 * 6).reshape(SHAPE) % 3 == 0)
    check(tmp_path, "SELECT_V2", [condition, x, w], y, ("SelectV2Options", {}), "BUILTIN_REF")
    places = constant("i", np.array([[0, 3], [0, 8], [0, 3]], np.int32))
    y = tensor(kind, "y", 0.05, 3, (3, 7, 6))
    check(tmp_path, "GATHER_ND", [x, places], y, ("GatherNdOptions", {}), "BUILTIN_REF")
    pads = constant("p", np.array([[0, 0], [1, 2], [2, 0], [0, 0]], np.int32))
    y = tensor(kind, "y", 0.05, 3, (1, 12, 9, 6))
    check(tmp_path, "MIRROR_PAD", [x, pads], y, ("MirrorPadOptions", {"Mode": 1}), "BUILTIN_REF")
    blocks, crops = constant("b", np.array([2, 3], np.int32)), constant("p", np.array([[1, 0], [1, 1]], np.int32))
    y = tensor(kind, "y", 0.05, 3, (6, 5, 3, 6))
    check(tmp_path, "SPACE_TO_BATCH_ND", [x, blocks, crops], y, None, "BUILTIN_REF")
    x, y = tensor(kind, "x", 0.05, 3, (6, 5, 3, 6)), tensor(kind, "y", 0.05, 3)
    check(tmp_path, "BATCH_TO_SPACE_ND", [x, blocks, crops], y, None, "BUILTIN_REF")


@each_kind
@pytest.mark.parametrize("op", ["ARG_MAX", "ARG_MIN"])
def test_places_of_extremes(op: str, kind: str, tmp_path: Path) -> None:
    operands = [tensor(kind, "x", 0.05, 3), constant("a", np.array(3, np.int32))]
    options = (f"Arg{op[4:].title()}Options", {"OutputType": 2})
    check(tmp_path, op, operands, Tensor("y", (1, 9, 7), "INT32"), options, "BUILTIN_REF")


@each_kind
def test_largest(kind: str, tmp_path: Path) -> None:
    tensors = [
        tensor(kind, "x", 0.05, 3),
        constant("k", np.array(3, np.int32)),
        tensor(kind, "y", 0.05, 3, (1, 9, 7, 3)),
        Tensor("i", (1, 9, 7, 3), "INT32"),
    ]
    content = tflite_file(tensors, [Node("TOPK_V2", ["x", "k"], ["y", "i"])], ["x"], ["y", "i"])
    fed = stored(kind.lower(), *SHAPE)
    expected = run_litert(content, "BUILTIN_REF", fed)
    for ours, theirs in zip(compute(read(content, tmp_path), fed), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@each_kind
@pytest.mark.parametrize("shape", [SHAPE, (40, 300), (5, 7, 3), (64,), (200, 1), (200, 2)])
def test_rows_of_length_1(shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    x, y = (tensor(kind, name, scale, zero, shape) for name, scale, zero in (("x", 0.05, 3), ("y", 1 / 128, 0)))
    check(tmp_path, "L2_NORMALIZATION", [x], y, None, "BUILTIN_REF")


@each("other", [SHAPE, (1, 1, 1, 6), (7, 6)])
@each("scale", [0.031, 0.2])
def test_squared_differences(other: tuple[int, ...], scale: float, tmp_path: Path) -> None:
    operands = [tensor("INT8", "x", 0.05, 3), tensor("INT8", "w", scale, 14, other)]
    check(tmp_path, "SQUARED_DIFFERENCE", operands, tensor("INT8", "y", 0.3, -100), None, "BUILTIN_REF")


@each_kind
def test_quantized_vectors_of_indices(kind: str, tmp_path: Path) -> None:
    numbers = [constant(name, np.array(number, kind.lower()), [0.1], [0]) for name, number in (("on", 7), ("off", 2))]
    y = Tensor("y", (2, 5, 3), kind, None, (0.1,), (0,))
    tensors = [Tensor("x", (2, 3), "INT32"), constant("d", np.array(5, np.int32)), *numbers, y]
    node = Node("ONE_HOT", ["x", "d", "on", "off"], ["y"], ("OneHotOptions", {"Axis": 1}))
    content = tflite_file(tensors, [node], ["x"], ["y"])
    fed = np.array([[0, 4, 5], [2, -1, 3]], np.int32)
    (expected,) = run_litert(content, "BUILTIN_REF", fed)
    np.testing.assert_array_equal(compute(read(content, tmp_path), fed.astype(np.float32))[0], expected)


def clipped_lstm(clip: float, steps: int, major: bool) -> bytes:
    """A layer with 3 inputs and 4 units over 2 sequences."""
    filters = [constant(f"w{i}", values(4, 3, seed=i)) for i in range(1, 5)]
    recurrences = [constant(f"w{i}", values(4, 4, seed=i) / 2) for i in range(5, 9)]
    biases = [constant(f"b{i}", values(4, seed=i)) for i in range(12, 16)]
    states = [Tensor(f"s{i}", (2, 4), is_variable=True) for i in range(2)]
    weights = [weight.name for weight in (*filters, *recurrences)]
    names = ["x", *weights, *[""] * 3, *[bias.name for bias in biases], "", "", "s0", "s1", *[""] * 4]
    x, y = (Tensor(name, (steps, 2, n) if major else (2, steps, n)) for name, n in (("x", 3), ("y", 4)))
    limits = {"CellClip": clip, "ProjClip": 0.01}
    options = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": TANH, "TimeMajor": major, **limits})
    node = Node("UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], options)
    return tflite_file([x, *filters, *recurrences, *biases, *states, y], [node], ["x"], ["y"])


@each("major", [False, True])
@each("steps", [1, 6])
@each("clip", [0.0, 0.4])
def test_cell_clips(clip: float, steps: int, major: bool, tmp_path: Path) -> None:
    """Without a projection LiteRT leaves the limit of one aside."""
    content, fed = clipped_lstm(clip, steps, major), values(*((steps, 2, 3) if major else (2, steps, 3)))
    (expected,) = run_litert(content, "BUILTIN_REF", fed)
    # Six steps of sums of at most 7 products in float32.
    np.testing.assert_allclose(compute(read(content, tmp_path), fed)[0], expected, rtol=1e-4, atol=1e-5)
    (free,) = run_litert(clipped_lstm(0.0, steps, major), "BUILTIN_REF", fed)
    assert (np.abs(expected - free).max() > 0.01) == (clip > 0)


LAYERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "time first": {"major": True},
    "large sums": {"weight": 3.0, "units": 64, "steps": 40},
    "one step": {"steps": 1, "count": 1, "cell_clip": 0.7},
    "no input gate": {"coupled": True},
    "peepholes": {"peephole": True},
    "peepholes without input gate": {"peephole": True, "coupled": True, "major": True},
    "normalization": {"norm": True},
    "projection": {"outputs": 10},
    "clips": {"outputs": 10, "proj_clip": 0.3, "cell_clip": 0.5},
    "everything": {"norm": True, "peephole": True, "outputs": 24, "cell_clip": 0.7},
}


@each("name", LAYERS)
def test_lstms_of_integers(name: str, tmp_path: Path) -> None:
    """LiteRT rounds sums of gates to 12 bits behind the point and the cell state to 11; TOP computes them in floats."""
    steps: list[Array] = []
    for seed in range(4):
        layer = Layer(**LAYERS[name], seed=seed)
        fed = layer.fed(seed)
        (expected,) = run_litert(layer.content(), "BUILTIN_REF", fed)
        (ours,) = compute(read(layer.content(), tmp_path), fed)
        assert ours.dtype == np.int8
        assert np.ptp(expected.astype(int)) > 30
        steps.append(np.abs(ours.astype(int) - expected).reshape(-1))
    assert min((one <= 1).mean() for one in steps) >= 0.99
    assert max(one.max() for one in steps) <= 3
    assert (np.concatenate(steps) == 0).mean() > 0.7


def test_peepholes_before_a_narrow_projection(tmp_path: Path) -> None:
    """LiteRT is off by far more than its roundings there in integers, and right in floats."""
    layer = Layer(peephole=True, outputs=10)
    with pytest.raises(ImportRefused) as caught:
        read(layer.content(), tmp_path)
    assert str(caught.value).endswith(
        "for integers LiteRT confuses units with peepholes and a projection to another size: export this node as float."
    )
    (stored,) = run_litert(layer.content(), "BUILTIN_REF", layer.fed(1))
    real = dataclasses.replace(layer, real=True)
    (expected,) = run_litert(real.content(), "BUILTIN_REF", real.fed(1))
    assert np.abs((stored + 3.0) / 60 - expected).max() > 4 / 60
    (ours,) = compute(read(real.content(), tmp_path), real.fed(1))
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5)


@each("name", LAYERS)
def test_lstms_of_floats(name: str, tmp_path: Path) -> None:
    layer = Layer(**LAYERS[name], real=True)
    fed = layer.fed(7)
    (expected,) = run_litert(layer.content(), "BUILTIN_REF", fed)
    (ours,) = compute(read(layer.content(), tmp_path), fed)
    # Sums of up to 84 products in float32, of which 40 steps make more.
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=2e-5)


def test_filters_over_time(tmp_path: Path) -> None:
    content, _ = svdf()
    fed = stored("int8", 2, 4).astype(np.float32) / 64
    (expected,) = run_litert(content, "BUILTIN_REF", fed)
    y, _ = compute(read(content, tmp_path), fed, np.zeros((2, 30), np.float32))
    # Sums of at most 14 products between -16 and 16 in float32.
    np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-4)


def svdf_of_integers(rank: int, memory: int, count: int) -> bytes:
    """A layer of 24 filters over 16 inputs; LiteRT wants the relu there and computes none."""
    rng = np.random.default_rng(4)
    scales = {"x": 1 / 40, "f": 1 / 100, "s": 1 / 1000, "t": 1 / 1300}
    bias = rng.normal(0, 0.5, 24 // rank) / (scales["s"] * scales["t"])
    tensors = [
        tensor("INT8", "x", scales["x"], 4, (count, 16)),
        constant("f", rng.integers(-127, 128, (24, 16)).astype(np.int8), [scales["f"]], [0]),
        constant("t", rng.integers(-2000, 2001, (24, memory)).astype(np.int16), [scales["t"]], [0]),
        constant("b", np.rint(bias).astype(np.int32)),
        Tensor("s", (count, 24 * memory), "INT16", None, (scales["s"],), (0,), is_variable=True),
        tensor("INT8", "y", 0.6, -3, (count, 24 // rank)),
    ]
    options = ("SVDFOptions", {"Rank": rank, "FusedActivationFunction": RELU})
    return tflite_file(tensors, [Node("SVDF", ["x", "f", "t", "b", "s"], ["y"], options)], ["x"], ["y"])


@each(("rank", "memory", "count"), [(1, 10, 1), (2, 10, 2), (4, 1, 3), (1, 30, 2)])
def test_filters_over_time_in_integers(rank: int, memory: int, count: int, tmp_path: Path) -> None:
    """LiteRT keeps its state itself; ours goes in and out, in floats, and newest features are not rounded."""
    content = svdf_of_integers(rank, memory, count)
    module = read(content, tmp_path)
    runtime = litert.Interpreter(
        model_content=content, experimental_op_resolver_type=litert.OpResolverType.BUILTIN_REF, num_threads=1
    )
    runtime.allocate_tensors()
    state, steps = np.zeros((count, 24 * memory), np.float32), list[Array]()
    for seed in range(2 * memory):
        fed = stored("int8", count, 16, seed=seed)
        runtime.set_tensor(runtime.get_input_details()[0]["index"], fed)
        runtime.invoke()
        expected = runtime.get_tensor(runtime.get_output_details()[0]["index"])
        ours, state = compute(module, fed, state)
        assert (ours.dtype, state.dtype) == (np.int8, np.float32)
        assert expected.min() < -10
        steps.append(np.abs(ours.astype(int) - expected).reshape(-1))
    assert max(one.max() for one in steps) <= 1
    assert (np.concatenate(steps) == 0).mean() > 0.98


@each_kind
@pytest.mark.parametrize(("axes", "shape"), [((1, 2), (1, 6)), ((3,), (1, 9, 7)), ((2,), (1, 9, 6))])
def test_means(axes: tuple[int, ...], shape: tuple[int, ...], kind: str, tmp_path: Path) -> None:
    operands = [tensor(kind, "x", 0.05, 3), constant("a", np.array(axes, np.int32))]
    options = ("ReducerOptions", {"KeepDims": False})
    check(tmp_path, "MEAN", operands, tensor(kind, "y", 0.04, -1, shape), options, "BUILTIN_REF")


@each("where", ["operand", "options"])
@each("target", [(1, -1, 2), (1, 160, 2)])
@each("stated", [(1, 1, 2), (1, 160, 2)])
def test_stale_shapes_behind_a_reshape(
    stated: tuple[int, ...], target: tuple[int, ...], where: str, tmp_path: Path
) -> None:
    """LiteRT computes the shape of every result anew."""
    shape = constant("s", np.array(target, np.int32))
    tensors = [Tensor("x", (160, 2)), shape, Tensor("r", stated), Tensor("a", stated), Tensor("y", stated)]
    options: Options = ("ReshapeOptions", {"NewShape": target} if where == "options" else {})
    nodes = [
        Node("RESHAPE", ["x", "s"] if where == "operand" else ["x"], ["r"], options),
        Node("ABS", ["r"], ["a"]),
        Node("NEG", ["a"], ["y"]),
    ]
    content, fed = tflite_file(tensors, nodes, ["x"], ["y"]), values(160, 2)
    (expected,) = run_litert(content, "BUILTIN_REF", fed)
    assert expected.shape == (1, 160, 2)
    np.testing.assert_array_equal(compute(read(content, tmp_path), fed)[0], expected)


@each(("centered", "corners"), [(0, 0), (1, 0), (0, 1)])
def test_bilinear_resizing(centered: int, corners: int, tmp_path: Path) -> None:
    operands = [tensor("INT8", "x", 0.05, 3), constant("s", np.array([13, 20], np.int32))]
    options = ("ResizeBilinearOptions", {"HalfPixelCenters": centered, "AlignCorners": corners})
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


FORMLESS: dict[str, tuple[list[Tensor], Options]] = {
    "CUMSUM": ([tensor("INT8", "x", 0.1, 3), constant("a", np.array(1, np.int32))], ("CumsumOptions", {})),
    "L2_POOL_2D": (
        [tensor("INT8", "x", 0.1, 3)],
        ("Pool2DOptions", {"StrideH": 1, "StrideW": 1, "FilterHeight": 2, "FilterWidth": 2}),
    ),
    "UNIDIRECTIONAL_SEQUENCE_RNN": (
        [
            tensor("INT8", "x", 0.1, 3, (1, 5, 4)),
            constant("w", stored("int8", 2, 4), [0.02], [0]),
            constant("r", stored("int8", 2, 2), [0.02], [0]),
            constant("b", np.zeros(2, np.int32), [0.001], [0]),
            Tensor("h", (1, 2), "INT8", None, (0.1,), (3,), is_variable=True),
        ],
        ("SequenceRNNOptions", {"FusedActivationFunction": 4}),
    ),
}


@each("op", FORMLESS)
def test_forms_that_litert_does_not_have(op: str, tmp_path: Path) -> None:
    """Our refusal says so."""
    operands, options = FORMLESS[op]
    node = Node(op, [operand.name for operand in operands], ["y"], options)
    content = tflite_file([*operands, tensor("INT8", "y", 0.1, 3)], [node], ["x"], ["y"])
    with pytest.raises(RuntimeError, match="failed to prepare"):
        run_litert(content, "BUILTIN_REF", stored("int8", *operands[0].shape))
    with pytest.raises(ImportRefused, match="LiteRT has no quantized form of it either"):
        read(content, tmp_path)
