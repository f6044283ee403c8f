"""Operators in the forms of older opsets, and constants that only exporters write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from onnx.reference import ReferenceEvaluator
from tpuc.interpreter import Interpreter

from tests.families import each
from tests.frontends.onnx.networks import Array, assert_same, network, node, ops, read, values

I64 = np.int64


FORMS = [*((opset, False) for opset in range(10, 26)), *((opset, True) for opset in range(13, 26))]


@each(("opset", "per_axis"), FORMS)
def test_dequantized_constants(opset: int, per_axis: bool, tmp_path: Path) -> None:
    """Filters and biases that a quantizing exporter stored as integers; scales per axis came with opset 13."""
    random = np.random.default_rng(3)
    scale: Any = np.array([0.01, 0.02, 0.03, 0.015], np.float32) if per_axis else np.float32(0.02)
    weights: dict[str, Array] = {
        "wq": random.integers(-128, 128, (4, 3, 3, 3)).astype(np.int8),
        "ws": np.asarray(scale),
        "wz": np.full_like(scale, 3, np.int8),
        "bq": random.integers(-500, 500, 4).astype(np.int32),
        "bs": np.asarray(scale * np.float32(0.02)),
        "bz": np.zeros_like(scale, np.int32),
    }
    axis = {"axis": 0} if per_axis else {}
    nodes = [
        node("DequantizeLinear", "wq ws wz", "w", **axis),
        node("DequantizeLinear", "bq bs bz", "b", **axis),
        node("Conv", "x w b", "y"),
    ]
    model = network(nodes, {"x": [1, 3, 8, 8]}, ["y"], weights, opset=opset)
    module = read(model, tmp_path)
    assert ops(module) == ["quant.dcast", "Conv"]
    assert_same(model, module)


@each("opset", [10, 13, 17, 21, 23])
def test_quantized_network(opset: int, tmp_path: Path) -> None:
    """Quantized input, filters, and output, each with its DequantizeLinear behind it."""
    weights: dict[str, Array] = {
        "xs": np.array(0.02, np.float32),
        "xz": np.array(128, np.uint8),
        "wq": np.random.default_rng(1).integers(-128, 128, (4, 3, 3, 3)).astype(np.int8),
        "ws": np.array(0.01, np.float32),
        "ys": np.array(0.25, np.float32),
    }
    nodes = [
        node("QuantizeLinear", "x xs xz", "xq"),
        node("DequantizeLinear", "xq xs xz", "xd"),
        node("DequantizeLinear", "wq ws", "w"),
        node("Conv", "xd w", "c"),
        node("QuantizeLinear", "c ys xz", "yq"),
        node("DequantizeLinear", "yq ys xz", "y"),
    ]
    model = network(nodes, {"x": [1, 3, 6, 6]}, ["y"], weights, opset=opset)
    assert_same(model, read(model, tmp_path))


REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")


@each("kind", REDUCTIONS)
@each("opset", [7, 11, 13, 18, 20])
def test_reductions_of_every_opset(kind: str, opset: int, tmp_path: Path) -> None:
    """Axes count from the end since opset 11; they are an operand since 18, and since 13 for the sum."""
    as_input = opset >= 18 or (kind == "Sum" and opset >= 13)
    weights: dict[str, Array] = {}
    nodes = [node("Abs", "x", "a")]
    for axes in ([], [1], [2, 1], *([[-1, 0]] if opset >= 11 else [])):
        for keepdims in (0, 1):
            name = f"y{len(nodes)}"
            attributes: dict[str, Any] = {"axes": axes} if axes and not as_input else {}
            if axes and as_input:
                weights[f"{name}_axes"] = np.array(axes, I64)
            operands = f"a {name}_axes" if axes and as_input else "a"
            nodes.append(node(f"Reduce{kind}", operands, name, keepdims=keepdims, **attributes))
    model = network(nodes, {"x": [2, 3, 4]}, [one.output[0] for one in nodes[1:]], weights, opset=opset)
    assert_same(model, read(model, tmp_path))


@each("opset", [13, 18])
def test_logarithms_of_sums_of_large_exponentials(opset: int, tmp_path: Path) -> None:
    """``exp(200)`` is beyond float32; the logarithm of the sum is not."""
    attributes: dict[str, Any] = {"axes": [1]} if opset < 18 else {}
    weights: dict[str, Array] = {"large": np.array(100, np.float32), "axes": np.array([1], I64)}
    nodes = [
        node("Mul", "x large", "m"),
        node("ReduceLogSumExp", "m" if attributes else "m axes", "y", keepdims=0, **attributes),
    ]
    model = network(nodes, {"x": [2, 3, 4]}, ["y"], weights, opset=opset)
    assert_same(model, read(model, tmp_path))


@each("kind", ["LogSum", "LogSumExp", "SumSquare"])
def test_reductions_over_nothing(kind: str, tmp_path: Path) -> None:
    nodes = [node("Abs", "x", "a"), node(f"Reduce{kind}", "a", "r", noop_with_empty_axes=1), node("Neg", "r", "y")]
    model = network(nodes, {"x": [2, 3, 4]}, ["y"], opset=18)
    assert_same(model, read(model, tmp_path))


@each("size", [(1, 2, 4, 5), (2, 3, 4, 4), (1, 2, 3, 4, 5), (2, 1, 2, 3, 2)], ids=str)
@each("align_corners", [0, 1])
def test_affine_grids_of_constant_size(size: tuple[int, ...], align_corners: int, tmp_path: Path) -> None:
    rank = len(size) - 2
    nodes = [node("AffineGrid", "x size", "y", align_corners=align_corners)]
    model = network(nodes, {"x": [size[0], rank, rank + 1]}, ["y"], {"size": np.array(size, I64)}, opset=20)
    assert_same(model, read(model, tmp_path))


@each("size", [(1, 1, 1, 4), (2, 1, 3, 1, 2)], ids=str)
def test_single_corner_pixels_of_affine_grids(size: tuple[int, ...], tmp_path: Path) -> None:
    """Runtimes disagree about them; ONNX's own reference says -1."""
    rank = len(size) - 2
    weights: dict[str, Array] = {"size": np.array(size, I64)}
    inputs = {"x": [size[0], rank, rank + 1]}
    model = network([node("AffineGrid", "x size", "y", align_corners=1)], inputs, ["y"], weights, opset=20)
    given = {"x": values(*inputs["x"])}
    with np.errstate(all="ignore"):
        (expected,) = ReferenceEvaluator(model).run(None, given)
    np.testing.assert_allclose(Interpreter(read(model, tmp_path)).run(given)["y"], expected, rtol=0, atol=1e-5)


def test_affine_grid_into_samples(tmp_path: Path) -> None:
    nodes = [node("AffineGrid", "theta size", "grid"), node("GridSample", "image grid", "y")]
    inputs = {"theta": [1, 2, 3], "image": [1, 2, 4, 4]}
    model = network(nodes, inputs, ["y"], {"size": np.array([1, 2, 4, 4], I64)}, opset=20)
    assert_same(model, read(model, tmp_path))


@each("coordinates", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
@each("rounding", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_places_by_scales_that_floats_cannot_hold(coordinates: str, rounding: str, tmp_path: Path) -> None:
    """Places halfway between two elements depend on how the scale is rounded."""
    sizes = ((20, 0.1), (22, 0.6), (23, 0.7), (24, 0.9), (25, 1.1), (26, 1.4), (27, 1.6), (28, 2.2), (29, 3.3))
    for extent, scale in sizes:
        attributes = {"coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        nodes = [node("Resize", "x - scales", "y", mode="nearest", **attributes)]
        weights: dict[str, Array] = {"scales": np.array([1, 1, scale, 1], np.float32)}
        model = network(nodes, {"x": [1, 1, extent, 2]}, ["y"], weights)
        assert_same(model, read(model, tmp_path))
