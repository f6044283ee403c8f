"""Images become `[n, c, h, w]` without Permutes that nobody needs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import ImportOptions, UsageError
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.tflite.files import SAME, VALID, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, ops_of, read, values

WEIGHT = values(6, 3, 3, 3, seed=1)
DENSE = values(4, 5 * 5 * 6, seed=2)
CONV = ("Conv2DOptions", {"Padding": SAME, "StrideH": 1, "StrideW": 1})


def classifier() -> bytes:
    """A convolution, a flattening that keeps rows, columns and channels in the foreign order, and a product."""
    tensors = [
        Tensor("x", (1, 5, 5, 3)),
        constant("w", WEIGHT),
        Tensor("c", (1, 5, 5, 6)),
        constant("shape", np.array([1, -1], np.int32)),
        Tensor("f", (1, 150)),
        constant("d", DENSE),
        Tensor("y", (1, 4)),
    ]
    nodes = [
        Node("CONV_2D", ["x", "w", ""], ["c"], CONV),
        Node("RESHAPE", ["c", "shape"], ["f"], ("ReshapeOptions", {})),
        Node("FULLY_CONNECTED", ["f", "d", ""], ["y"], ("FullyConnectedOptions", {})),
    ]
    return tflite_file(tensors, nodes, ["x"], ["y"])


def test_a_filter_follows_a_flattened_image(tmp_path: Path) -> None:
    module = read(classifier(), tmp_path)
    assert ops_of(module) == ["Conv", "Reshape", "MatMul"]
    x = values(1, 5, 5, 3)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    under = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))
    expected = np.einsum("nhwckl,oklc->nhwo", under, WEIGHT).reshape(1, -1) @ DENSE.T
    # Sums of 150 products of sums of 27: order costs a few units in the last place.
    np.testing.assert_allclose(compute(module, x)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_flattened_image_that_others_read_is_permuted_once(tmp_path: Path) -> None:
    module = read(classifier(), tmp_path, ImportOptions("n", output_names=("y", "f")))
    assert ops_of(module).count("Permute") == 1
    x = values(1, 5, 5, 3)
    conv = compute(read(classifier(), tmp_path, ImportOptions("n", output_names=("c",))), x)[0]
    np.testing.assert_array_equal(compute(module, x)[1], conv.reshape(1, -1))


def test_transposes_of_the_file_only_change_the_order(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", (1, 3, 5, 5)),
        constant("p", np.array([0, 2, 3, 1], np.int32)),
        Tensor("t", (1, 5, 5, 3)),
        constant("w", WEIGHT),
        Tensor("c", (1, 3, 3, 6)),
        constant("q", np.array([0, 3, 1, 2], np.int32)),
        Tensor("u", (1, 6, 3, 3)),
        constant("s", np.array([1, 54], np.int32)),
        Tensor("y", (1, 54)),
    ]
    nodes = [
        Node("TRANSPOSE", ["x", "p"], ["t"], ("TransposeOptions", {})),
        Node("CONV_2D", ["t", "w", ""], ["c"], ("Conv2DOptions", {"Padding": VALID, "StrideH": 1, "StrideW": 1})),
        Node("TRANSPOSE", ["c", "q"], ["u"], ("TransposeOptions", {})),
        Node("RESHAPE", ["u", "s"], ["y"], ("ReshapeOptions", {})),
    ]
    module = read(tflite_file(tensors, nodes, ["x"], ["y"]), tmp_path)
    # The input is `[n, h, w, c]` to every file, so this one, which holds `[n, c, h, w]` itself, is given turned once.
    assert ops_of(module) == ["Permute", "Conv", "Reshape"]


def test_element_wise_ops_keep_the_order(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", (1, 5, 5, 3)),
        constant("m", values(5, 1, seed=4)),
        Tensor("a", (1, 5, 5, 3)),
        Tensor("b", (1, 5, 5, 3)),
        constant("axes", np.array([1, 2], np.int32)),
        Tensor("r", (1, 3)),
        Tensor("y", (1, 3)),
    ]
    nodes = [
        Node("MUL", ["x", "m"], ["a"], ("MulOptions", {})),
        Node("LOGISTIC", ["a"], ["b"]),
        Node("MEAN", ["b", "axes"], ["r"], ("ReducerOptions", {"KeepDims": False})),
        Node("SOFTMAX", ["r"], ["y"], ("SoftmaxOptions", {"Beta": 1.0})),
    ]
    module = read(tflite_file(tensors, nodes, ["x"], ["y"]), tmp_path)
    assert ops_of(module) == ["Mul", "Sigmoid", "Reduce", "Softmax"]


def test_extents_of_one_move_for_free(tmp_path: Path) -> None:
    tensors = [
        Tensor("x", (1, 7, 5, 1)),
        Tensor("t", (1, 7, 5, 1)),
        constant("s", np.array([7, 5], np.int32)),
        Tensor("y", (7, 5)),
    ]
    nodes = [Node("TANH", ["x"], ["t"]), Node("RESHAPE", ["t", "s"], ["y"], ("ReshapeOptions", {}))]
    module = read(tflite_file(tensors, nodes, ["x"], ["y"]), tmp_path)
    assert ops_of(module) == ["Tanh", "Reshape"]
    x = values(1, 7, 5, 1)
    np.testing.assert_allclose(compute(module, x)[0], np.tanh(x.reshape(7, 5)), rtol=1e-6)


def image_network(signature: tuple[int, ...] | None = None) -> bytes:
    tensors = [
        Tensor("x", (1, 4, 6, 3), signature=signature),
        Tensor("t", (1, 4, 6, 3)),
        constant("s", np.array([1, 72], np.int32)),
        Tensor("y", (1, 72)),
    ]
    nodes = [Node("ABS", ["x"], ["t"]), Node("RESHAPE", ["t", "s"], ["y"], ("ReshapeOptions", {}))]
    return tflite_file(tensors, nodes, ["x"], ["t", "y"])


def test_the_user_sees_nchw(tmp_path: Path) -> None:
    module = read(image_network(), tmp_path)
    interpreter = Interpreter(module)
    assert {name: type.dims for name, type in interpreter.inputs.items()} == {"x": (1, 3, 4, 6)}
    x = values(1, 3, 4, 6)
    out = interpreter.run({"x": x})
    np.testing.assert_array_equal(out["t"], np.abs(x))
    np.testing.assert_array_equal(out["y"], np.abs(x).transpose(0, 2, 3, 1).reshape(1, -1))


@each("options", [ImportOptions("n", batch=3), ImportOptions("n", input_shapes=((3, 3, 4, 6),))])
def test_another_batch(options: ImportOptions, tmp_path: Path) -> None:
    module = read(image_network(), tmp_path, options)
    x = values(3, 4, 6, 3)
    t, y = compute(module, x)
    np.testing.assert_array_equal(t, np.abs(x))
    np.testing.assert_array_equal(y, np.abs(x).reshape(3, 72))


def test_shapes_that_the_file_leaves_open(tmp_path: Path) -> None:
    options = ImportOptions("n", input_shapes=((1, 3, 2, 6),), output_names=("t",))
    module = read(image_network((1, -1, 6, 3)), tmp_path, options)
    assert Interpreter(module).inputs["x"].dims == (1, 3, 2, 6)
    with pytest.raises(UsageError, match=r"input 'x' has shape 1x3x4x6, and 1x3x2x6 does not fit it\. Only the batch"):
        read(image_network(), tmp_path, options)


@each(
    ("file", "stated", "dims"),
    [
        ((1, 4, 6, 3), (1, 4, 6, 3), (1, 3, 4, 6)),
        ((1, 4, 6, 3), (5, 4, 6, 3), (5, 3, 4, 6)),
        ((1, 4, 6, 3), (5, 3, 4, 6), (5, 3, 4, 6)),
        ((1, -1, -1, 3), (1, 8, 2, 3), (1, 3, 8, 2)),
        ((1, -1, -1, 3), (1, 3, 8, 2), (1, 3, 8, 2)),
        ((1, -1, -1, 3), (1, 3, 3, 3), (1, 3, 3, 3)),
        ((1, -1, -1, -1), (1, 8, 2, 3), (1, 8, 2, 3)),
    ],
)
def test_shapes_as_the_file_has_them(
    file: tuple[int, ...], stated: tuple[int, ...], dims: tuple[int, ...], tmp_path: Path
) -> None:
    """Channels first where that fits, else as in the file."""
    module = read(image_network(file), tmp_path, ImportOptions("n", input_shapes=(stated,), output_names=("t",)))
    assert Interpreter(module).inputs["x"].dims == dims


def test_preprocessing_is_for_images(tmp_path: Path) -> None:
    options = ImportOptions("n", preprocess={"mean": (1.0, 2.0, 3.0), "pixel_format": "rgb"})
    module = read(image_network(), tmp_path, options)
    (source,) = [operation.op for operation in module.walk() if operation.op.name == "top.Input"]
    assert (source.mean, source.pixel_format) == ((1.0, 2.0, 3.0), "rgb")
