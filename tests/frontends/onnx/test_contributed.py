"""Operators of ONNX Runtime on floats, compared with ONNX Runtime, or with their formula where it has no kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from tpuc.api import Unsupported
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.onnx.networks import Array, assert_same, network, node, read, run_onnx, values

MS = "com.microsoft"
IMAGE, TEXT = (1, 4, 6, 6), (2, 3, 8)
WEIGHTS: Mapping[str, Array] = {
    "w": values(6, 4, 3, 3, seed=5),
    "b": values(6, seed=6),
    "z": values(1, 6, 4, 4, seed=7),
    "m": values(8, 5, seed=8),
    "mt": values(5, 8, seed=9),
    "c": values(5, seed=10),
    "cells": values(2, 8, 5, seed=11),
    "wide": values(8, 2, 5, seed=12),
    "skip": values(*TEXT, seed=13),
    "gamma": values(8, seed=14),
    "beta": values(8, seed=15),
    "bias": values(8, seed=16),
}
CASES: Mapping[str, tuple[onnx.NodeProto, tuple[int, ...]]] = {
    "a convolution and relu": (node("FusedConv", "x w b", "y", domain=MS, activation="Relu"), IMAGE),
    "a convolution and clip": (
        node("FusedConv", "x w b", "y", domain=MS, activation="Clip", activation_params=[-0.5, 1.5], strides=[2, 2]),
        IMAGE,
    ),
    "a convolution and leaky relu": (
        node("FusedConv", "x w", "y", domain=MS, activation="LeakyRelu", activation_params=[0.3], pads=[1] * 4),
        IMAGE,
    ),
    "a convolution and hard sigmoid": (
        node("FusedConv", "x w", "y", domain=MS, activation="HardSigmoid", activation_params=[0.1, 0.4]),
        IMAGE,
    ),
    "a convolution and a sum": (node("FusedConv", "x w b z", "y", domain=MS, activation="Relu"), IMAGE),
    "gemm and leaky relu": (
        node("FusedGemm", "x m c", "y", domain=MS, activation="LeakyRelu", activation_alpha=0.2, alpha=0.5),
        (3, 8),
    ),
    "gemm of rows": (node("FusedGemm", "x mt c", "y", domain=MS, activation="Relu", transB=1), (3, 8)),
    "a product times a number": (node("FusedMatMul", "x m", "y", domain=MS, alpha=0.25), TEXT),
    "a product of rows": (node("FusedMatMul", "x mt", "y", domain=MS, transB=1), TEXT),
    "a product of columns": (node("FusedMatMul", "x cells", "y", domain=MS, transA=1), (2, 8, 3)),
    "a product by batch": (node("FusedMatMul", "x wide", "y", domain=MS, transBatchA=1, transBatchB=1), (3, 2, 8)),
    "a product by batch of columns": (
        node("FusedMatMul", "x cells", "y", domain=MS, transBatchA=1, transA=1),
        (8, 2, 3),
    ),
    "gelu": (node("Gelu", "x", "y", domain=MS), TEXT),
    "gelu by tanh": (node("FastGelu", "x bias", "y", domain=MS), TEXT),
    "gelu by tanh alone": (node("FastGelu", "x", "y", domain=MS), TEXT),
    "gelu and bias": (node("BiasGelu", "x bias", "y", domain=MS), TEXT),
    "gelu by sigmoid": (node("QuickGelu", "x", "y", domain=MS, alpha=1.5), TEXT),
    "a normalized sum": (node("SkipLayerNormalization", "x skip gamma beta bias", "y", domain=MS, epsilon=1e-5), TEXT),
    "a normalized sum and the sum": (
        node("SkipLayerNormalization", "x skip gamma beta", "y - - s", domain=MS, epsilon=1e-3),
        TEXT,
    ),
    "a sum without means": (
        node("SkipSimplifiedLayerNormalization", "x skip gamma bias", "y", domain=MS, epsilon=1e-5),
        TEXT,
    ),
    "without means": (node("SimplifiedLayerNormalization", "x gamma", "y", epsilon=1e-4, axis=-1), TEXT),
}


def model_of(proto: onnx.NodeProto, shape: tuple[int, ...], outputs: tuple[str, ...] = ("y",)) -> onnx.ModelProto:
    """A network of one operator whose other operands are weights."""
    for index, name in enumerate(proto.output):
        proto.output[index] = "" if name == "-" else name
    used = {name: WEIGHTS[name] for name in proto.input if name in WEIGHTS}
    return network([proto], {"x": list(shape)}, outputs, used)


@each("case", CASES)
def test_as_onnx_runtime(case: str, tmp_path: Path) -> None:
    proto, shape = CASES[case]
    model = model_of(proto, shape, ("y", "s") if "s" in proto.output else ("y",))
    assert_same(model, read(model, tmp_path))


def computed(proto: onnx.NodeProto, x: Array, folder: Path) -> Array:
    return Interpreter(read(model_of(proto, x.shape), folder)).run({"x": x})["y"]


def test_a_convolution_with_channels_last(tmp_path: Path) -> None:
    """There is no kernel on a CPU: the same as a plain one of the transposed operands, the filter's included."""
    plain = network([node("Conv", "x w b", "y", pads=[1] * 4)], {"x": list(IMAGE)}, ["y"], {**WEIGHTS})
    x = values(*IMAGE)
    wanted = run_onnx(plain, {"x": x})["y"].transpose(0, 2, 3, 1)
    proto = node("NhwcConv", "x w b", "y", domain=MS, pads=[1] * 4)
    turned = {"w": WEIGHTS["w"].transpose(0, 2, 3, 1).copy(), "b": WEIGHTS["b"]}
    module = read(network([proto], {"x": [1, 6, 6, 4]}, ["y"], turned), tmp_path)
    got = Interpreter(module).run({"x": x.transpose(0, 2, 3, 1).copy()})["y"]
    np.testing.assert_allclose(got, wanted, atol=1e-4)


def test_largest_numbers_with_channels_last(tmp_path: Path) -> None:
    x = values(1, 6, 6, 4)
    got = computed(node("NhwcMaxPool", "x", "y", domain=MS, kernel_shape=[2, 2], strides=[2, 2]), x, tmp_path)
    np.testing.assert_array_equal(got, x.reshape(1, 3, 2, 3, 2, 4).max((2, 4)))


def test_halves(tmp_path: Path) -> None:
    """BiasSplitGelu and BiasAdd have no kernels on a CPU: their formulas."""
    x = values(*TEXT).astype(np.float64)
    left, right = np.split(x + WEIGHTS["bias"], 2, -1)
    wanted = left * right * 0.5 * (1 + np.vectorize(math.erf)(right / np.sqrt(2)))
    got = computed(node("BiasSplitGelu", "x bias", "y", domain=MS), x.astype(np.float32), tmp_path)
    np.testing.assert_allclose(got, wanted, atol=1e-5)
    got = computed(node("BiasAdd", "x bias skip", "y", domain=MS), x.astype(np.float32), tmp_path)
    np.testing.assert_allclose(got, x + WEIGHTS["bias"] + WEIGHTS["skip"], atol=1e-6)


@each("has_segments", [True, False])
@each("has_mask", [True, False])
def test_embeddings(has_segments: bool, has_mask: bool, tmp_path: Path) -> None:
    inputs = f"ids {'segments' if has_segments else '-'} words places {'kinds' if has_segments else '-'} gamma beta"
    proto = node(
        "EmbedLayerNormalization",
        f"{inputs}{' mask' if has_mask else ''}",
        "y count total",
        domain=MS,
        epsilon=1e-5,
    )
    tables = {"words": values(20, 8, seed=1), "places": values(5, 8, seed=2), "kinds": values(2, 8, seed=3)}
    given = {
        "ids": np.random.default_rng(0).integers(0, 20, (2, 5)).astype(np.int32),
        "segments": np.random.default_rng(1).integers(0, 2, (2, 5)).astype(np.int32),
        "mask": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32),
    }
    used = {name: given[name] for name in proto.input if name in given}
    weights = {name: array for name, array in {**tables, **WEIGHTS}.items() if name in proto.input}
    outputs = ["y", "total", *(["count"] if has_mask else [])]
    model = network([proto], dict.fromkeys(used, (2, 5)), outputs, weights)
    for entry in model.graph.input:
        entry.type.tensor_type.elem_type = onnx.TensorProto.INT32
    got = Interpreter(read(model, tmp_path)).run({name: array.astype(np.float32) for name, array in used.items()})
    for name, wanted in run_onnx(model, used).items():
        np.testing.assert_allclose(got[name], wanted, atol=1e-5)


@each(("bits", "zero"), [(4, "none"), (4, "packed"), (4, "float"), (8, "none"), (8, "packed")])
@each("rows", [64, 56])
def test_matrices_in_blocks(bits: int, zero: str, rows: int, tmp_path: Path) -> None:
    columns, size = 6, 16
    blocks = -(-rows // size)
    random = np.random.default_rng(bits)
    weights: dict[str, Array] = {
        "b": random.integers(0, 256, (columns, blocks, size * bits // 8)).astype(np.uint8),
        "s": random.uniform(0.01, 0.1, (columns, blocks)).astype(np.float32),
        "z": random.integers(0, 256, (columns, -(-blocks * bits // 8))).astype(np.uint8),
        "f": random.uniform(0, 1 << bits, (columns, blocks)).astype(np.float32),
    }
    name = {"none": "", "packed": " z", "float": " f"}[zero]
    proto = node("MatMulNBits", f"x b s{name}", "y", domain=MS, K=rows, N=columns, bits=bits, block_size=size)
    used = {name: array for name, array in weights.items() if name in proto.input}
    model = network([proto], {"x": [2, 3, rows]}, ["y"], used)
    assert_same(model, read(model, tmp_path))


@each(
    ("proto", "shape", "expected"),
    [
        (
            node("FusedConv", "x w", "y", domain=MS, activation="Swish"),
            IMAGE,
            (
                "activation 'Swish' is not supported; the supported ones are Clip, Elu, HardSigmoid, LeakyRelu, Relu, "
                "Sigmoid, Tanh."
            ),
        ),
        (
            node("MatMulNBits", "x w s - g", "y", domain=MS, K=8, N=5, block_size=16),
            TEXT,
            "rows in an order other than that of their blocks (g_idx) are not supported.",
        ),
        (
            node("MatMulNBits", "x x gamma", "y", domain=MS, K=8, N=5, block_size=16),
            TEXT,
            "the matrix is computed at run time ('x'), but must be a constant.",
        ),
    ],
)
def test_refusals(proto: onnx.NodeProto, shape: tuple[int, ...], expected: str, tmp_path: Path) -> None:
    model = model_of(proto, shape)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(values(5), name)
        for name in proto.input
        if name and name != "x" and name not in WEIGHTS
    )
    with pytest.raises(Unsupported) as caught:
        read(model, tmp_path)
    assert str(caught.value).endswith(f"m.onnx: node '{proto.name}' ({proto.op_type}): {expected}")
