"""Float operators, one by one, against numpy on the foreign layout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tests.families import each
from tests.frontends.tflite.files import (
    RELU,
    RELU6,
    RELU_N1_TO_1,
    SAME,
    VALID,
    Node,
    Tensor,
    constant,
    tflite_file,
)
from tests.frontends.tflite.networks import compute, read, single, values

Array = NDArray[Any]
SHAPE = (2, 6, 4, 8)
# Sums of at most 200 products between -4 and 4 in float32: their order costs a few units in the last place of the sum.
SUMS = {"rtol": 1e-4, "atol": 1e-4}


def ints(name: str, data: Any) -> Tensor:
    return constant(name, np.array(data, np.int32))


def check(folder: Path, op: str, operands: list[Tensor], expected: Array, options: Any = None, **limits: float) -> None:
    """One operator on reproducible inputs; `expected` was computed from the same."""
    module = single(folder, op, operands, Tensor("y", expected.shape), options)
    fed = [values(*tensor.shape, seed=i) for i, tensor in enumerate(operands) if tensor.data is None]
    (result,) = compute(module, *fed)
    np.testing.assert_allclose(result.reshape(expected.shape), expected, **(limits or {"rtol": 1e-6, "atol": 1e-6}))


X = Tensor("x", SHAPE)
x = values(*SHAPE)


@each(
    ("op", "function"),
    [
        ("ABS", np.abs),
        ("CEIL", np.ceil),
        ("COS", np.cos),
        ("ELU", lambda v: np.where(v > 0, v, np.expm1(v))),
        ("EXP", np.exp),
        ("FLOOR", np.floor),
        ("HARD_SWISH", lambda v: v * np.clip(v / 6 + 0.5, 0, 1)),
        ("LOGISTIC", lambda v: 1 / (1 + np.exp(-v))),
        ("NEG", np.negative),
        ("RELU", lambda v: np.maximum(v, 0)),
        ("RELU6", lambda v: np.clip(v, 0, 6)),
        ("RELU_N1_TO_1", lambda v: np.clip(v, -1, 1)),
        ("RELU_0_TO_1", lambda v: np.clip(v, 0, 1)),
        ("ROUND", np.rint),
        ("SIGN", np.sign),
        ("SIN", np.sin),
        ("SQUARE", np.square),
        ("TANH", np.tanh),
    ],
)
def test_functions_of_one_value(op: str, function: Callable[[Array], Array], tmp_path: Path) -> None:
    check(tmp_path, op, [X], function(x.astype(np.float64)))


@each(
    ("op", "options", "function"),
    [
        ("ADD", "AddOptions", np.add),
        ("SUB", "SubOptions", np.subtract),
        ("MUL", "MulOptions", np.multiply),
        ("DIV", "DivOptions", np.divide),
        ("MAXIMUM", "MaximumMinimumOptions", np.maximum),
        ("MINIMUM", "MaximumMinimumOptions", np.minimum),
        ("SQUARED_DIFFERENCE", "SquaredDifferenceOptions", lambda a, b: (a - b) ** 2),
    ],
)
@each(
    ("other", "is_constant"),
    [((), True), *((shape, c) for shape in (SHAPE, (8,), (4, 1), (1, 6, 1, 8)) for c in (True, False))],
)
def test_broadcasting_in_foreign_order(
    op: str, options: str, function: np.ufunc, other: tuple[int, ...], is_constant: bool, tmp_path: Path
) -> None:
    w = values(*other, seed=1) if other else np.float32(1.5)
    second = constant("w", w) if is_constant else Tensor("w", other)
    check(tmp_path, op, [X, second], function(x, w), (options, {}), rtol=1e-5, atol=1e-5)


@each(("code", "low", "high"), [(RELU, 0, None), (RELU6, 0, 6), (RELU_N1_TO_1, -1, 1)])
def test_fused_activations(code: int, low: float, high: float | None, tmp_path: Path) -> None:
    check(tmp_path, "MUL", [X, constant("w", np.float32(5))], np.clip(x * 5, low, high), ("MulOptions", fused(code)))


def fused(code: int) -> dict[str, int]:
    return {"FusedActivationFunction": code}


def padding(extent: int, taps: int, stride: int, dilation: int = 1) -> tuple[int, int]:
    total = max((-(-extent // stride) - 1) * stride + (taps - 1) * dilation + 1 - extent, 0)
    return total // 2, total - total // 2


def windows(v: Array, kernel: tuple[int, int], stride: int, mode: int, fill: float = 0.0) -> Array:
    """`[n, oh, ow, c, kh, kw]`."""
    if mode == SAME:
        pads = [padding(extent, taps, stride) for extent, taps in zip(v.shape[1:3], kernel, strict=True)]
        v = np.pad(v, ((0, 0), *pads, (0, 0)), constant_values=fill)
    return sliding_window_view(v, kernel, (1, 2))[:, ::stride, ::stride]


@each("stride", [1, 2])
@each("mode", [SAME, VALID])
def test_windows(stride: int, mode: int, tmp_path: Path) -> None:
    kernel = (3, 2)
    geometry = {"Padding": mode, "StrideH": stride, "StrideW": stride}
    under = windows(x, kernel, stride, mode).astype(np.float64)
    weight, bias = values(5, *kernel, 8, seed=5), values(5, seed=6)
    expected = np.einsum("nhwckl,oklc->nhwo", under, weight) + bias
    check(
        tmp_path,
        "CONV_2D",
        [X, constant("w", weight), constant("b", bias)],
        expected,
        ("Conv2DOptions", geometry),
        **SUMS,
    )
    weight = values(1, *kernel, 16, seed=7)
    expected = np.einsum("nhwckl,klcm->nhwcm", under, weight[0].reshape(*kernel, 8, 2)).reshape(*under.shape[:3], 16)
    options = ("DepthwiseConv2DOptions", {**geometry, "DepthMultiplier": 2})
    check(tmp_path, "DEPTHWISE_CONV_2D", [X, constant("w", weight)], expected, options, **SUMS)
    pool = ("Pool2DOptions", {**geometry, "FilterHeight": 3, "FilterWidth": 2})
    check(tmp_path, "MAX_POOL_2D", [X], windows(x, kernel, stride, mode, -np.inf).max((-2, -1)), pool)
    counts = windows(np.ones_like(x), kernel, stride, mode).sum((-2, -1))
    check(tmp_path, "AVERAGE_POOL_2D", [X], under.sum((-2, -1)) / counts, pool)


@each(("mode", "size"), [(SAME, (12, 8)), (SAME, (11, 7)), (VALID, (13, 9)), (VALID, (14, 9))])
def test_transposed_convolution(mode: int, size: tuple[int, int], tmp_path: Path) -> None:
    weight = values(5, 3, 3, 8, seed=5)
    full = np.zeros((2, 16, 12, 5))
    for i in range(6):
        for j in range(4):
            full[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3] += np.einsum("nc,oklc->nklo", x[:, i, j], weight)
    before = [max((e - 1) * 2 + 3 - s, 0) // 2 if mode == SAME else 0 for e, s in zip((6, 4), size, strict=True)]
    expected = full[:, before[0] : before[0] + size[0], before[1] : before[1] + size[1]]
    options = ("TransposeConvOptions", {"Padding": mode, "StrideH": 2, "StrideW": 2})
    operands = [ints("s", (2, *size, 5)), constant("w", weight), Tensor("x", SHAPE)]
    module = single(tmp_path, "TRANSPOSE_CONV", operands, Tensor("y", expected.shape), options)
    np.testing.assert_allclose(compute(module, x)[0], expected, **SUMS)


def test_products(tmp_path: Path) -> None:
    weight, bias = values(5, 8, seed=5), values(5, seed=6)
    keep = ("FullyConnectedOptions", {"KeepNumDims": True, "FusedActivationFunction": RELU})
    operands = [X, constant("w", weight), constant("b", bias)]
    check(tmp_path, "FULLY_CONNECTED", operands, np.maximum(x @ weight.T + bias, 0), keep, **SUMS)
    flat = ("FullyConnectedOptions", {})
    check(tmp_path, "FULLY_CONNECTED", operands, x.reshape(48, 8) @ weight.T + bias, flat, **SUMS)
    left, right = values(2, 3, 8, seed=0), values(2, 5, 8, seed=1)
    operands = [Tensor("x", left.shape), Tensor("w", right.shape)]
    check(
        tmp_path, "BATCH_MATMUL", operands, left @ right.swapaxes(1, 2), ("BatchMatMulOptions", {"AdjY": True}), **SUMS
    )


@each(("op", "function"), [("MEAN", np.mean), ("SUM", np.sum), ("REDUCE_MAX", np.max)])
@each(("axes", "keep"), [((1, 2), 0), ((1, 2), 1), ((3,), 0), ((2,), 0), ((-1,), 1), ((0, 1, 2, 3), 0)])
def test_reductions(op: str, function: Any, axes: tuple[int, ...], keep: int, tmp_path: Path) -> None:
    expected = np.asarray(function(x.astype(np.float64), axis=axes, keepdims=bool(keep)))
    check(tmp_path, op, [X, ints("a", axes)], expected, ("ReducerOptions", {"KeepDims": keep}), **SUMS)


@each(
    ("op", "more", "options", "expected"),
    [
        ("RESHAPE", [ints("s", (2, -1))], ("ReshapeOptions", {}), x.reshape(2, 192)),
        ("RESHAPE", [], ("ReshapeOptions", {"NewShape": (2, 24, 8)}), x.reshape(2, 24, 8)),
        ("TRANSPOSE", [ints("p", (3, 1, 0, 2))], ("TransposeOptions", {}), x.transpose(3, 1, 0, 2)),
        (
            "PAD",
            [ints("p", [[0, 0], [1, 2], [3, 0], [0, 1]])],
            ("PadOptions", {}),
            np.pad(x, [(0, 0), (1, 2), (3, 0), (0, 1)]),
        ),
        (
            "PADV2",
            [ints("p", [[0, 0], [1, 2], [3, 0], [0, 1]]), constant("v", np.array([1.5], np.float32))],
            ("PadV2Options", {}),
            np.pad(x, [(0, 0), (1, 2), (3, 0), (0, 1)], constant_values=1.5),
        ),
        (
            "MIRROR_PAD",
            [ints("p", [[0, 0], [1, 2], [3, 0], [0, 1]])],
            ("MirrorPadOptions", {"Mode": 0}),
            np.pad(x, [(0, 0), (1, 2), (3, 0), (0, 1)], mode="reflect"),
        ),
        ("SLICE", [ints("b", (0, 1, 0, 2)), ints("s", (2, -1, 3, 4))], ("SliceOptions", {}), x[:, 1:, :3, 2:6]),
        (
            "STRIDED_SLICE",
            [ints("b", (0, 5, 0, 2)), ints("e", (2, 0, 4, 3)), ints("s", (1, -2, 1, 1))],
            ("StridedSliceOptions", {"EndMask": 2, "ShrinkAxisMask": 8}),
            x[:, 5::-2, :, 2],
        ),
        (
            "STRIDED_SLICE",
            [ints("b", (0, 0, 2)), ints("e", (0, 0, 6)), ints("s", (1, 1, 2))],
            ("StridedSliceOptions", {"EllipsisMask": 1, "NewAxisMask": 2}),
            x[..., np.newaxis, 2:6:2],
        ),
        ("TILE", [ints("m", (1, 2, 1, 3))], ("TileOptions", {}), np.tile(x, (1, 2, 1, 3))),
        ("GATHER", [ints("i", (3, 0, 2))], ("GatherOptions", {"Axis": 2}), x[:, :, [3, 0, 2]]),
        ("GATHER", [ints("i", 2)], ("GatherOptions", {"Axis": -2}), x[:, :, 2]),
        ("REVERSE_V2", [ints("a", (1,))], ("ReverseV2Options", {}), x[:, ::-1]),
        ("CUMSUM", [ints("a", 1)], ("CumsumOptions", {}), x.cumsum(1)),
        ("ARG_MAX", [ints("a", 3)], ("ArgMaxOptions", {}), x.argmax(3)),
        ("CAST", [], ("CastOptions", {}), x),
        ("EXPAND_DIMS", [ints("a", 0)], ("ExpandDimsOptions", {}), x[None]),
        (
            "SPACE_TO_DEPTH",
            [],
            ("SpaceToDepthOptions", {"BlockSize": 2}),
            x.reshape(2, 3, 2, 2, 2, 8).transpose(0, 1, 3, 2, 4, 5).reshape(2, 3, 2, 32),
        ),
        (
            "DEPTH_TO_SPACE",
            [],
            ("DepthToSpaceOptions", {"BlockSize": 2}),
            x.reshape(2, 6, 4, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(2, 12, 8, 2),
        ),
    ],
)
def test_arrangements(op: str, more: list[Tensor], options: Any, expected: Array, tmp_path: Path) -> None:
    check(tmp_path, op, [X, *more], expected, options)


def test_softmax_and_norms(tmp_path: Path) -> None:
    e = np.exp(0.7 * x.astype(np.float64))
    check(tmp_path, "SOFTMAX", [X], e / e.sum(-1, keepdims=True), ("SoftmaxOptions", {"Beta": 0.7}))
    e = np.exp(x.astype(np.float64))
    check(tmp_path, "LOG_SOFTMAX", [X], np.log(e / e.sum(-1, keepdims=True)), ("LogSoftmaxOptions", {}))
    norm = np.sqrt(np.square(x.astype(np.float64)).sum(-1, keepdims=True))
    check(tmp_path, "L2_NORMALIZATION", [X], x / norm, ("L2NormOptions", {}), rtol=1e-5, atol=1e-6)
    slope = values(1, 1, 8, seed=3)
    check(tmp_path, "PRELU", [X, constant("a", slope)], np.where(x > 0, x, slope * x))
    check(tmp_path, "LEAKY_RELU", [X], np.where(x > 0, x, 0.2 * x), ("LeakyReluOptions", {"Alpha": 0.2}))


@each("centered", [0, 1])
def test_resizing(centered: int, tmp_path: Path) -> None:
    size = (9, 13)
    places = [(np.arange(n) + 0.5 * centered) * e / n for n, e in zip(size, (6, 4), strict=True)]
    rows, columns = (np.minimum(p.astype(int), e - 1) for p, e in zip(places, (6, 4), strict=True))
    options = {"HalfPixelCenters": centered}
    nearest = ("ResizeNearestNeighborOptions", options)
    check(tmp_path, "RESIZE_NEAREST_NEIGHBOR", [X, ints("s", size)], x[:, rows][:, :, columns], nearest)
    expected = x.astype(np.float64)
    for axis, (place, extent) in enumerate(zip(places, (6, 4), strict=True), 1):
        where = np.clip(place - 0.5 * centered, 0, extent - 1)
        low = np.floor(where).astype(int)
        share = (where - low).reshape((-1,) + (1,) * (3 - axis))
        high = np.minimum(low + 1, extent - 1)
        expected = np.take(expected, low, axis) * (1 - share) + np.take(expected, high, axis) * share
    bilinear = ("ResizeBilinearOptions", options)
    check(tmp_path, "RESIZE_BILINEAR", [X, ints("s", size)], expected, bilinear, rtol=1e-5, atol=1e-5)


def test_several_results(tmp_path: Path) -> None:
    tensors = [X, ints("axis", 3), *(Tensor(f"y{i}", (2, 6, 4, 4)) for i in range(2)), Tensor("z", (2, 2, 6, 4, 4))]
    nodes = [
        Node("SPLIT", ["axis", "x"], ["y0", "y1"], ("SplitOptions", {"NumSplits": 2})),
        Node("PACK", ["y1", "y0"], ["z"], ("PackOptions", {"ValuesCount": 2, "Axis": 0})),
    ]
    (z,) = compute(read(tflite_file(tensors, nodes, ["x"], ["z"]), tmp_path), x)
    np.testing.assert_array_equal(z, np.stack([x[..., 4:], x[..., :4]]))
