"""MediaPipe's custom operators: LiteRT where a builtin operator computes the same, else what they are defined as."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from numpy.typing import NDArray
from tpuc.api import Module, Unsupported

from tests.families import each
from tests.frontends.tflite.files import Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, read

Array = NDArray[Any]
SAME, VALID = 1, 2
RANDOM = np.random.default_rng(2)


def custom(
    folder: Path,
    op: str,
    operands: list[Tensor],
    results: list[Tensor],
    options: bytes | Mapping[str, Any] = b"",
    version: int = 2,
) -> Module:
    """A network of one custom operator; operands without data are its inputs."""
    data = options if isinstance(options, bytes) else bytes(flexbuffers.Dumps(dict(options)))
    names = [one.name for one in results]
    node = Node("CUSTOM", [one.name for one in operands], names, custom=op, custom_options=data, version=version)
    inputs = [one.name for one in operands if one.data is None]
    return read(tflite_file([*operands, *results], [node], inputs, names), folder)


def litert(content: bytes, *arrays: Array) -> list[Array]:
    module: Any = pytest.importorskip("ai_edge_litert.interpreter", reason="needs ai-edge-litert")
    interpreter = module.Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    for entry, array in zip(interpreter.get_input_details(), arrays, strict=True):
        interpreter.set_tensor(entry["index"], array)
    interpreter.invoke()
    return [interpreter.get_tensor(one["index"]) for one in interpreter.get_output_details()]


@pytest.mark.parametrize(
    ("size", "kernel", "strides", "padding"),
    [((5, 6), (2, 2), (2, 2), SAME), ((4, 5), (3, 3), (2, 2), VALID), ((4, 3), (4, 3), (2, 1), SAME)],
)
def test_a_transposed_convolution_with_a_bias(
    size: tuple[int, int], kernel: tuple[int, int], strides: tuple[int, int], padding: int, tmp_path: Path
) -> None:
    x, w = RANDOM.normal(size=(1, *size, 3)).astype(np.float32), RANDOM.normal(size=(4, *kernel, 3)).astype(np.float32)
    bias = np.array([0.5, -1, 2, 0], np.float32)
    totals = [
        max(0, k - (n - 1) % s - 1) if padding == SAME else 0 for k, n, s in zip(kernel, size, strides, strict=True)
    ]
    out = [s * (n - 1) + k - total for k, n, s, total in zip(kernel, size, strides, totals, strict=True)]
    tensors = [Tensor("x", x.shape), constant("w", w), constant("b", bias)]
    result = Tensor("y", (1, *out, 4))
    options = struct.pack("<3i", padding, strides[1], strides[0])
    module = custom(tmp_path, "Convolution2DTransposeBias", tensors, [result], options)
    stated = ("TransposeConvOptions", {"Padding": padding - 1, "StrideW": strides[1], "StrideH": strides[0]})
    shape = constant("shape", np.array(result.shape, np.int32))
    node = Node("TRANSPOSE_CONV", ["shape", "w", "x"], ["y"], stated)
    (wanted,) = litert(tflite_file([*tensors[:2], shape, result], [node], ["x"], ["y"]), x)
    np.testing.assert_allclose(compute(module, x)[0], wanted + bias, atol=1e-4)


def pooled(x: Array, kernel: tuple[int, int], strides: tuple[int, int]) -> tuple[Array, Array]:
    """The largest elements of windows, and their places in them."""
    windows = np.lib.stride_tricks.sliding_window_view(x, kernel, (1, 2))[:, :: strides[0], :: strides[1]]
    flat = windows.reshape(*windows.shape[:4], -1)
    return flat.max(-1), flat.argmax(-1) + np.float32(0.1)


@each(("kernel", "strides", "padding"), [((2, 2), (2, 2), SAME), ((2, 3), (2, 1), VALID), ((3, 1), (1, 2), VALID)])
def test_pooling_with_places(kernel: tuple[int, int], strides: tuple[int, int], padding: int, tmp_path: Path) -> None:
    x = RANDOM.integers(-4, 5, (1, 6, 8, 3)).astype(np.float32)  # with equal elements
    wanted = pooled(x, kernel, strides)
    options = struct.pack("<6i", padding, *strides[::-1], *kernel[::-1], 0)
    results = [Tensor(name, one.shape) for name, one in zip(("y", "p"), wanted, strict=True)]
    module = custom(tmp_path, "MaxPoolingWithArgmax2D", [Tensor("x", x.shape)], results, options)
    for got, one in zip(compute(module, x), wanted, strict=True):
        np.testing.assert_allclose(got, one, atol=1e-6)


def test_unpooling(tmp_path: Path) -> None:
    x = RANDOM.normal(size=(1, 3, 4, 2)).astype(np.float32)
    places = RANDOM.integers(0, 6, x.shape)
    wanted = np.zeros((1, 6, 12, 2), np.float32)
    for _, row, column, channel in np.ndindex(x.shape):
        down, right = divmod(int(places[0, row, column, channel]), 3)
        wanted[0, 2 * row + down, 3 * column + right, channel] = x[0, row, column, channel]
    operands = [Tensor("x", x.shape), Tensor("p", x.shape)]
    options = struct.pack("<6i", SAME, 3, 2, 3, 2, 0)
    module = custom(tmp_path, "MaxUnpooling2D", operands, [Tensor("y", wanted.shape)], options)
    np.testing.assert_array_equal(compute(module, x, (places + 0.1).astype(np.float32))[0], wanted)


def matrix() -> Array:
    found = np.eye(4, dtype=np.float32)[None]
    found[0, :2] = [[0.9, -0.4, 0, 1.5], [0.3, 0.8, 0, -1.25]]
    return found


@each("width", [2, 3])
def test_moved_landmarks(width: int, tmp_path: Path) -> None:
    points, moves = RANDOM.normal(size=(1, 7, width)).astype(np.float32), matrix()
    flat = np.concatenate([points[0, :, :2], np.zeros((7, 1)), np.ones((7, 1))], 1) @ moves[0, :2].T
    wanted = np.concatenate([flat, points[0, :, 2:]], 1)
    operands = [Tensor("points", points.shape), Tensor("moves", moves.shape)]
    module = custom(tmp_path, "TransformLandmarks", operands, [Tensor("y", points.shape)])
    np.testing.assert_allclose(compute(module, points, moves)[0][0], wanted, atol=1e-5)


def test_an_image_that_a_matrix_moves(tmp_path: Path) -> None:
    x, moves = RANDOM.normal(size=(1, 6, 7, 2)).astype(np.float32), matrix()
    wanted = np.zeros((1, 4, 5, 2), np.float32)
    for row, column in np.ndindex(4, 5):
        right, down = moves[0, :2] @ np.array([column + 0.5, row + 0.5, 0, 1]) - 0.5
        if not (0 <= right <= 6 and 0 <= down <= 5):
            continue
        left, upper = math.floor(right), math.floor(down)
        for i, j in np.ndindex(2, 2):
            share = (1 - abs(down - upper - i)) * (1 - abs(right - left - j))
            if upper + i < 6 and left + j < 7:
                wanted[0, row, column] += share * x[0, upper + i, left + j]
    assert 0 < np.count_nonzero(wanted) < wanted.size
    operands = [Tensor("x", x.shape), Tensor("moves", moves.shape)]
    options = {"output_height": 4, "output_width": 5}
    module = custom(tmp_path, "TransformTensorBilinear", operands, [Tensor("y", wanted.shape)], options)
    np.testing.assert_allclose(compute(module, x, moves)[0], wanted, atol=1e-5)


OPTIONS: Mapping[str, Any] = {
    "left_rotation_idx": 1,
    "right_rotation_idx": 4,
    "output_height": 16,
    "output_width": 12,
    "scale_x": 1.5,
    "scale_y": 1.25,
    "subset_idxs": [1, 4, 5, 2, 7],
    "target_rotation_radians": 0.3,
}


def crop(points: Array) -> Array:
    """The matrix as a product of a shift, a rotation, a scale, and a shift."""
    (x0, y0), (x1, y1) = points[1, :2], points[4, :2]
    angle = 0.3 - math.atan2(y1 - y0, x1 - x0)

    def turn(by: float) -> Array:
        return np.array([[math.cos(by), -math.sin(by), 0], [math.sin(by), math.cos(by), 0], [0, 0, 1]])

    turned = points[[1, 4, 5, 2, 7], :2] @ turn(angle)[:2, :2].T
    high, low = turned.max(0), turned.min(0)
    begin, scale, end = np.eye(3), np.eye(3), np.eye(3)
    begin[:2, 2] = turn(-angle)[:2, :2] @ ((high + low) / 2)
    scale[[0, 1], [0, 1]] = (high - low) * [1.5 / 12, 1.25 / 16]
    end[:2, 2] = [-6, -8]
    product = begin @ turn(-angle) @ scale @ end
    whole = np.eye(4)
    whole[:2, :2], whole[:2, 3] = product[:2, :2], product[:2, 2]
    return whole


@each("seed", range(5))
def test_the_matrix_of_landmarks(seed: int, tmp_path: Path) -> None:
    points = (np.random.default_rng(seed).normal(size=(1, 9, 3)) * 50).astype(np.float32)
    operands, result = [Tensor("points", points.shape)], Tensor("y", (1, 4, 4))
    module = custom(tmp_path, "Landmarks2TransformMatrix", operands, [result], OPTIONS)
    np.testing.assert_allclose(compute(module, points)[0][0], crop(points[0]), atol=1e-3)


@each(
    ("op", "options", "version", "expected"),
    [
        ("TransformLandmarks", b"", 1, "its version is 1, and only version 2 is supported."),
        ("TransformTensorBilinear", b"", 2, "its options cannot be read."),
        (
            "TransformTensorBilinear",
            {"output_width": 3},
            2,
            "its option output_height is missing or no whole number from 1 to 65536.",
        ),
        ("MaxPoolingWithArgmax2D", b"1234", 2, "its options have 4 bytes, and 24 are needed."),
        (
            "MaxPoolingWithArgmax2D",
            struct.pack("<6i", 1, 0, 2, 2, 2, 0),
            2,
            "its options 1, 0, 2, 2, 2, 0 are not window sizes.",
        ),
        (
            "MaxPoolingWithArgmax2D",
            struct.pack("<6i", 1, 2, 2, 3, 3, 0),
            2,
            "windows that reach beyond the image are not supported.",
        ),
        ("MaxPoolingWithArgmax2D", struct.pack("<6i", 1, 2, 2, 2, 2, 1), 2, "its fused activation 1 is not supported."),
        ("MaxUnpooling2D", struct.pack("<6i", 1, 1, 1, 2, 2, 0), 2, "windows of 2x2 with strides 1x1 overlap."),
        (
            "MaxUnpooling2D",
            struct.pack("<6i", 1, *[1 << 16] * 4, 0),
            2,
            "windows of 65536x65536 are larger than 1024 elements.",
        ),
        (
            "TransformTensorBilinear",
            {"output_height": 1 << 13, "output_width": 1 << 12},
            2,
            "its result of 8192x4096 pixels is larger than any image.",
        ),
        ("Landmarks2TransformMatrix", {**OPTIONS, "subset_idxs": [9]}, 2, "a landmark that is none of the 9."),
        ("Landmarks2TransformMatrix", {**OPTIONS, "left_rotation_idx": 9}, 2, "a landmark that is none of the 9."),
        (
            "Landmarks2TransformMatrix",
            {**OPTIONS, "subset_idxs": []},
            2,
            "its option subset_idxs is no list of landmarks.",
        ),
        ("Landmarks2TransformMatrix", {**OPTIONS, "subset_idxs": [[1], [2]]}, 2, "its options cannot be read."),
        (
            "Landmarks2TransformMatrix",
            {**OPTIONS, "output_width": 0},
            2,
            "its option output_width is missing or no whole number from 1 to 65536.",
        ),
    ],
)
def test_refusals(op: str, options: bytes | Mapping[str, Any], version: int, expected: str, tmp_path: Path) -> None:
    shapes = {"TransformLandmarks": (1, 4, 4), "Landmarks2TransformMatrix": (1, 9, 3)}
    shape = shapes.get(op, (1, 4, 4, 2))
    operands = [Tensor("x", shape), *([Tensor("p", (1, 4, 4))] if op.startswith("Transform") else [])]
    results = [Tensor(name, shape) for name in (("y", "p2") if op.startswith("MaxPool") else ("y",))]
    if op == "MaxUnpooling2D":
        operands.append(Tensor("p", shape))
    with pytest.raises(Unsupported) as caught:
        custom(tmp_path, op, operands, results, options, version)
    assert f"({op}): " in str(caught.value)
    assert str(caught.value).endswith(expected)
