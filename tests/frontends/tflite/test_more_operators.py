"""Float operators that are less common, one by one, against numpy on the foreign layout."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from tpuc.api import Unsupported

from tests.families import each
from tests.frontends.tflite.files import TANH, VALID, Node, Tensor, constant, tflite_file
from tests.frontends.tflite.networks import compute, read, single, stored, values
from tests.frontends.tflite.test_operators import SUMS, check

Array = NDArray[Any]
SHAPE = (2, 6, 4, 8)
X, x = Tensor("x", SHAPE), values(*SHAPE)


def ints(name: str, data: Any) -> Tensor:
    return constant(name, np.array(data, np.int32))


@each("axis", [-1, 0, 1])
@each(("on", "off"), [(1.0, 0.0), (0.1, -3.0)])
def test_one_hot(axis: int, on: float, off: float, tmp_path: Path) -> None:
    places = np.array([[0, 4, 5], [2, -1, 3]], np.float32)
    hit = places[..., None] == np.arange(5)
    expected = np.moveaxis(np.where(hit, np.float32(on), np.float32(off)), -1, axis)
    operands = [
        Tensor("x", (2, 3), "INT32"),
        ints("d", 5),
        constant("on", np.float32(on)),
        constant("off", np.float32(off)),
    ]
    module = single(tmp_path, "ONE_HOT", operands, Tensor("y", expected.shape), ("OneHotOptions", {"Axis": axis}))
    np.testing.assert_array_equal(compute(module, places)[0], expected)


def test_parts_by_index(tmp_path: Path) -> None:
    places = np.array([[[0, 5], [1, 2]]])
    check(tmp_path, "GATHER_ND", [X, ints("i", places)], x[[[0, 1]], [[5, 2]]], ("GatherNdOptions", {}))
    check(tmp_path, "EMBEDDING_LOOKUP", [ints("i", [4, 0]), Tensor("x", (5, 3))], values(5, 3, seed=1)[[4, 0]])
    expected = np.zeros((4, 3), np.float32)
    updates = values(3, 3, seed=1)
    for row, place in enumerate((2, 0, 2)):
        expected[place] += updates[row]
    check(tmp_path, "SCATTER_ND", [ints("i", [[2], [0], [2]]), Tensor("x", (3, 3)), ints("s", [4, 3])], expected)


@each(
    ("op", "operands", "shape", "sentence"),
    [
        ("GATHER_ND", [X, ints("i", [[2, 0]])], (1, 4, 8), "it selects elements 2 to 2 of a dimension of 2"),
        ("GATHER_ND", [X, ints("i", [[0] * 5])], (1,), r"indices of \[1, 5\] do not fit"),
        (
            "ONE_HOT",
            [X, ints("d", 0), constant("a", np.float32(1)), constant("b", np.float32(0))],
            (1,),
            "a depth of 0",
        ),
        ("MIRROR_PAD", [X, ints("p", [[0, 0], [7, 0], [0, 0], [0, 0]])], (1,), "too many to mirror"),
        (
            "SCATTER_ND",
            [ints("i", [[4]]), Tensor("x", (1, 3)), ints("s", [4, 3])],
            (4, 3),
            "it selects elements 4 to 4",
        ),
    ],
)
def test_indices_outside(
    op: str, operands: list[Tensor], shape: tuple[int, ...], sentence: str, tmp_path: Path
) -> None:
    options = ("MirrorPadOptions", {"Mode": 1}) if op == "MIRROR_PAD" else None
    with pytest.raises(Unsupported, match=sentence):
        single(tmp_path, op, operands, Tensor("y", shape), options)


def test_mirrors_with_their_border(tmp_path: Path) -> None:
    pads = [[0, 0], [2, 1], [0, 0], [0, 3]]
    expected = np.pad(x, pads, "symmetric")
    check(tmp_path, "MIRROR_PAD", [X, ints("p", pads)], expected, ("MirrorPadOptions", {"Mode": 1}))


def test_gelu_by_tanh(tmp_path: Path) -> None:
    wide = x.astype(np.float64)
    expected = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    check(tmp_path, "GELU", [X], expected, ("GeluOptions", {"Approximate": True}))


def test_norms_of_neighbors(tmp_path: Path) -> None:
    padded = np.pad(np.square(x.astype(np.float64)), ((0, 0), (0, 0), (0, 0), (2, 2)))
    sums = sliding_window_view(padded, 5, 3).sum(-1)
    options = {"Radius": 2, "Bias": 1.5, "Alpha": 0.25, "Beta": 0.75}
    expected = x / (1.5 + 0.25 * sums) ** 0.75
    check(tmp_path, "LOCAL_RESPONSE_NORMALIZATION", [X], expected, ("LocalResponseNormalizationOptions", options))


def test_roots_of_mean_squares(tmp_path: Path) -> None:
    under = sliding_window_view(np.square(x.astype(np.float64)), (3, 2), (1, 2))
    options = {"Padding": VALID, "StrideH": 1, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 2}
    check(tmp_path, "L2_POOL_2D", [X], np.sqrt(under.mean((-1, -2))), ("Pool2DOptions", options), **SUMS)


@each(("op", "function"), [("REDUCE_ANY", np.any), ("REDUCE_ALL", np.all)])
def test_truth_of_many(op: str, function: Any, tmp_path: Path) -> None:
    truth = (x[..., :2] > 0.5).astype(np.float32)
    operands = [Tensor("x", truth.shape, "BOOL"), ints("a", [3])]
    module = single(tmp_path, op, operands, Tensor("y", SHAPE[:3], "BOOL"), ("ReducerOptions", {}))
    np.testing.assert_array_equal(compute(module, truth)[0], function(truth, 3))


@each("activation", [1, 4])
def test_simple_recurrence(activation: int, tmp_path: Path) -> None:
    weight, recurrence, bias = values(4, 3, seed=1), values(4, 4, seed=2) / 2, values(4, seed=3)
    sequence, state = values(2, 5, 3), np.zeros((2, 4))
    expected = np.zeros((2, 5, 4))
    for step in range(5):
        total = sequence[:, step] @ weight.T + state @ recurrence.T + bias
        expected[:, step] = state = np.maximum(total, 0) if activation == 1 else np.tanh(total)
    operands = [
        Tensor("x", (2, 5, 3)),
        constant("w", weight),
        constant("r", recurrence),
        constant("b", bias),
        Tensor("s", (2, 4), is_variable=True),
    ]
    module = single(
        tmp_path,
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        operands[:4],
        Tensor("y", (2, 5, 4)),
        ("SequenceRNNOptions", {"FusedActivationFunction": activation}),
    )
    # Five steps of sums of at most 8 products in float32.
    np.testing.assert_allclose(compute(module, sequence)[0], expected, rtol=1e-4, atol=1e-4)


def sigmoid(v: Array) -> Array:
    return 1 / (1 + np.exp(-v))


@each("major", [False, True])
@each("with_bias", [False, True])
def test_lstm(major: bool, with_bias: bool, tmp_path: Path) -> None:
    """Gates in the file's order: input, forget, cell, output."""
    filters = [values(4, 3, seed=i) for i in range(1, 5)]
    recurrences = [values(4, 4, seed=i) / 2 for i in range(5, 9)]
    biases = [values(4, seed=i) * with_bias for i in range(9, 13)]
    sequence, h, c = values(2, 5, 3), np.zeros((2, 4)), np.zeros((2, 4))
    expected = np.zeros((2, 5, 4))
    for step in range(5):
        i, f, g, o = (
            sequence[:, step] @ w.T + h @ r.T + b for w, r, b in zip(filters, recurrences, biases, strict=True)
        )
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        expected[:, step] = h = sigmoid(o) * np.tanh(c)
    turned = (1, 0, 2) if major else (0, 1, 2)
    shapes = [tuple(array.transpose(turned).shape) for array in (sequence, expected)]
    weights = [constant(f"w{i}", array) for i, array in enumerate((*filters, *recurrences), 1)]
    bias_tensors = [constant(f"b{i}", array) for i, array in enumerate(biases, 12)] if with_bias else []
    names = ["x", *(w.name for w in weights), "", "", "", *([b.name for b in bias_tensors] or [""] * 4), *[""] * 8]
    options = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": TANH, "TimeMajor": major})
    node = Node("UNIDIRECTIONAL_SEQUENCE_LSTM", names, ["y"], options)
    tensors = [Tensor("x", shapes[0]), *weights, *bias_tensors, Tensor("y", shapes[1])]
    module = read(tflite_file(tensors, [node], ["x"], ["y"]), tmp_path)
    (y,) = compute(module, np.ascontiguousarray(sequence.transpose(turned)))
    # Five steps of sums of at most 7 products in float32.
    np.testing.assert_allclose(y, expected.transpose(turned), rtol=1e-4, atol=1e-5)


@each("kind", ["INT8", "UINT8"])
def test_quantized_quotients_are_rounded_once(kind: str, tmp_path: Path) -> None:
    """The reciprocal has 31 bits: for operands of 8 bits the quotient is the exact one, rounded."""
    offset = 128 if kind == "UINT8" else 0
    top, bottom = stored(kind.lower(), 8, 200), stored(kind.lower(), 8, 200, seed=1)
    zeros = (3 + offset, 14 + offset, -2 + offset)
    bottom[bottom == zeros[1]] += 1
    operands = [
        Tensor("x", (8, 200), kind, None, (0.05,), (zeros[0],)),
        Tensor("w", (8, 200), kind, None, (0.031,), (zeros[1],)),
    ]
    y = Tensor("y", (8, 200), kind, None, (0.3,), (zeros[2],))
    (ours,) = compute(single(tmp_path, "DIV", operands, y, ("DivOptions", {})), top, bottom)
    ratio = float(np.float32(0.05)) * (top.astype(float) - zeros[0])
    ratio /= float(np.float32(0.031)) * float(np.float32(0.3)) * (bottom.astype(float) - zeros[1])
    limits = np.iinfo(kind.lower())
    away = np.trunc(ratio + np.copysign(0.5, ratio))
    sure = np.abs(np.abs(ratio) % 1 - 0.5) > 1e-6  # scales are float32 numbers: ties depend on their last bits
    expected = np.clip(away + zeros[2], limits.min, limits.max)
    np.testing.assert_array_equal(ours[sure], expected[sure])
    assert sure.mean() > 0.99
