"""Operators on stored integers, compared with ONNX Runtime: as imported, and computed with integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tpuc.api import InvalidModel, Module, PassContext, TensorType
from tpuc.interpreter import Interpreter
from tpuc_prequantized.absorb_quantization import AbsorbQuantization

from tests.families import each
from tests.frontends.onnx.networks import Array, network, node, ops, read, registry, run_onnx, values

MS = "com.microsoft"
STEP = 0.03
"""Of the results."""

U8, I8 = np.uint8, np.int8


def number(value: float, dtype: type = np.float32) -> Array:
    return np.array(value, dtype)


def integers(dtype: type, *shape: int, seed: int = 7) -> Array:
    limits = np.iinfo(dtype)
    return np.random.default_rng(seed).integers(limits.min, limits.max + 1, shape).astype(dtype)


SCALES: Mapping[str, Array] = {
    "xs": number(0.017),
    "xz": number(121, U8),
    "ys": number(STEP),
    "yz": number(130, U8),
}
FILTERS: Mapping[str, Array] = {
    "w": integers(I8, 6, 4, 3, 3),
    "ws": number(0.004),
    "wz": number(0, I8),
    "wsc": np.linspace(0.001, 0.006, 6).astype(np.float32),
    "wzc": np.zeros(6, I8),
    "w1": integers(U8, 6, 4, 3, 3),
    "wz1": number(125, U8),
    "b": np.random.default_rng(3).integers(-4000, 4000, 6).astype(np.int32),
}
MATRICES: Mapping[str, Array] = {
    "m": integers(I8, 8, 5),
    "mt": integers(I8, 5, 8),
    "ms": number(0.009),
    "mz": number(0, I8),
    "msc": np.linspace(0.002, 0.01, 5).astype(np.float32),
    "mzc": np.zeros(5, I8),
    "c": np.random.default_rng(4).integers(-3000, 3000, 5).astype(np.int32),
}
OTHER: Mapping[str, Array] = {
    "other": integers(U8, 1, 4, 6, 6, seed=8),
    "os": number(0.011),
    "oz": number(100, U8),
    "row": integers(U8, 4, 1, 1, seed=9),
    "condition": np.random.default_rng(5).random((1, 4, 6, 6)) > 0.5,
}
WEIGHTS = {**SCALES, **FILTERS, **MATRICES, **OTHER}
IMAGE, ROWS = (1, 4, 6, 6), (3, 8)

CASES: Mapping[str, tuple[onnx.NodeProto, tuple[int, ...]]] = {
    "a convolution": (node("QLinearConv", "q xs xz w ws wz ys yz b", "r", pads=[1, 1, 1, 1]), IMAGE),
    "a convolution by channel": (node("QLinearConv", "q xs xz w wsc wzc ys yz b", "r", strides=[2, 2]), IMAGE),
    "a convolution of unsigned filters": (node("QLinearConv", "q xs xz w1 ws wz1 ys yz", "r"), IMAGE),
    "a convolution with channels last": (
        node("QLinearConv", "q xs xz w ws wz ys yz b", "r", domain=MS, channels_last=1),
        (1, 6, 6, 4),
    ),
    "a product": (node("QLinearMatMul", "q xs xz m ms mz ys yz", "r"), ROWS),
    "a product by column": (node("QLinearMatMul", "q xs xz m msc mzc ys yz", "r"), ROWS),
    "a product of many": (node("QLinearMatMul", "q xs xz m ms mz ys yz", "r"), (2, 3, 8)),
    "gemm": (node("QGemm", "q xs xz m ms mz c ys yz", "r", domain=MS), ROWS),
    "gemm by column": (node("QGemm", "q xs xz mt msc mzc c ys yz", "r", domain=MS, transB=1), ROWS),
    "gemm without a bias": (node("QGemm", "q xs xz m ms mz - ys yz", "r", domain=MS), ROWS),
    "gemm times a number": (node("QGemm", "q xs xz m ms mz c ys yz", "r", domain=MS, alpha=0.5), ROWS),
    "a sum": (node("QLinearAdd", "q xs xz other os oz ys yz", "r", domain=MS), IMAGE),
    "a sum with itself": (node("QLinearAdd", "q xs xz q xs xz ys yz", "r", domain=MS), IMAGE),
    "a sum with a row": (node("QLinearAdd", "q xs xz row os oz ys yz", "r", domain=MS), IMAGE),
    "a product of elements": (node("QLinearMul", "q xs xz other os oz ys yz", "r", domain=MS), IMAGE),
    "without zero points": (node("QLinearSigmoid", "q xs xz os -", "r", domain=MS), IMAGE),
    "a sigmoid": (node("QLinearSigmoid", "q xs xz ys yz", "r", domain=MS), IMAGE),
    "a leaky relu": (node("QLinearLeakyRelu", "q xs xz ys yz", "r", domain=MS, alpha=0.2), IMAGE),
    "softmax": (node("QLinearSoftmax", "q xs xz ys yz", "r", domain=MS, opset=13, axis=1), IMAGE),
    "softmax of old": (node("QLinearSoftmax", "q xs xz ys yz", "r", domain=MS, opset=12, axis=1), (1, 2, 3, 2)),
    "a mean of images": (node("QLinearGlobalAveragePool", "q xs xz ys yz", "r", domain=MS), IMAGE),
    "a mean of images with channels last": (
        node("QLinearGlobalAveragePool", "q xs xz ys yz", "r", domain=MS, channels_last=1),
        IMAGE,
    ),
    "means": (
        node("QLinearAveragePool", "q xs xz ys yz", "r", domain=MS, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        IMAGE,
    ),
    "means with channels last": (
        node("QLinearAveragePool", "q xs xz ys yz", "r", domain=MS, kernel_shape=[2, 2], channels_last=1),
        IMAGE,
    ),
    "behind each other": (node("QLinearConcat", "ys yz q xs xz other os oz", "r", domain=MS, axis=1), IMAGE),
    "a choice": (node("QLinearWhere", "condition q xs xz other os oz ys yz", "r", domain=MS), IMAGE),
}


def model_of(proto: onnx.NodeProto, shape: Sequence[int]) -> onnx.ModelProto:
    """A quantized input, the operator, and its result as floats."""
    inputs = set(proto.input)
    scale, zero = ("ys", "yz") if "ys" in inputs else ("os", "zero")
    nodes = [node("QuantizeLinear", "x xs xz", "q"), proto, node("DequantizeLinear", f"r {scale} {zero}", "y")]
    weights = {**WEIGHTS, "zero": number(0, U8)}
    used = {name for one in nodes for name in one.input}
    weights = {name: array for name, array in weights.items() if name in used}
    return network(nodes, {"x": list(shape)}, ["y"], weights)


def absorbed(module: Module) -> Module:
    AbsorbQuantization().run(module, PassContext(registry()))
    module.verify()
    return module


def assert_within_a_step(got: Array, wanted: Array, step: float) -> None:
    """Integers differ by at most 1, and by nothing in nine of ten values."""
    steps = np.rint((got.astype(np.float64) - wanted.astype(np.float64)) / step)
    assert got.shape == wanted.shape
    assert np.abs(steps).max() <= 1
    assert np.count_nonzero(steps) <= 0.1 * steps.size


@each("case", CASES)
def test_as_onnx_runtime(case: str, tmp_path: Path) -> None:
    proto, shape = CASES[case]
    model = model_of(proto, shape)
    step = STEP if "ys" in proto.input else float(WEIGHTS["os"])
    module = read(model, tmp_path)
    x = {"x": values(*shape, seed=2)}
    wanted = run_onnx(model, x)["y"]
    assert np.unique(wanted).size > 2
    assert_within_a_step(Interpreter(module).run(x)["y"], wanted, step)
    assert_within_a_step(Interpreter(absorbed(module)).run(x)["y"], wanted, step)


INTEGERS = ("a convolution", "a product", "gemm by column", "a sum", "a product of elements", "softmax", "means")


@each("case", INTEGERS)
def test_nothing_between_the_casts_is_a_float(case: str, tmp_path: Path) -> None:
    module = absorbed(read(model_of(*CASES[case]), tmp_path))
    computed = [operation for operation in module.main.operations if operation.results]
    assert not {"QuantizeLinear", "DequantizeLinear"} & {*ops(module)}
    types = [operation.result.type for operation in computed if operation.op.name.startswith("top.")]
    kinds = [type for type in types if isinstance(type, TensorType) and not type.is_quantized]
    assert [str(type.element) for type in kinds] in (["f32"], ["f32", "i32"], ["i32", "f32"])


def test_integers_that_are_moved_stay_integers(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"),
        node("QLinearConv", "q xs xz w ws wz ys yz b", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2]),
        node("Reshape", "p dims", "t"),
        node("DequantizeLinear", "t ys yz", "y"),
    ]
    used = {name: WEIGHTS[name] for name in ("xs", "xz", "w", "ws", "wz", "ys", "yz", "b")}
    model = network(nodes, {"x": list(IMAGE)}, ["y"], {**used, "dims": np.array([1, -1])})
    module = absorbed(read(model, tmp_path))
    assert ops(module) == ["quant.qcast", "Conv", "MaxPool", "Reshape", "quant.dcast"]
    x = {"x": values(*IMAGE)}
    assert_within_a_step(Interpreter(module).run(x)["y"], run_onnx(model, x)["y"], STEP)


@each("pad", [130, 7])
def test_pads_and_parts_of_integers_stay_integers(pad: int, tmp_path: Path) -> None:
    """What is put around integers is an integer itself: that of zero, or another one."""
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"),
        node("QLinearConv", "q xs xz w ws wz ys yz b", "r"),
        node("Pad", "r pads around", "p"),
        node("Split", "p", "left right", axis=1, num_outputs=2),
        node("QLinearAdd", "left ys yz right ys yz ys yz", "t", domain=MS),
        node("DequantizeLinear", "t ys yz", "y"),
    ]
    used = {name: WEIGHTS[name] for name in ("xs", "xz", "w", "ws", "wz", "ys", "yz", "b")}
    used |= {"pads": np.array([0, 0, 1, 2, 0, 0, 0, 1]), "around": number(pad, U8)}
    model = network(nodes, {"x": list(IMAGE)}, ["y"], used, opset=18)
    module = absorbed(read(model, tmp_path))
    assert {"QuantizeLinear", "DequantizeLinear"}.isdisjoint(ops(module))
    assert [ops(module).count(cast) for cast in ("quant.qcast", "quant.dcast")] == [1, 1]
    x = {"x": values(*IMAGE)}
    assert_within_a_step(Interpreter(module).run(x)["y"], run_onnx(model, x)["y"], STEP)


def test_float_results_of_integers(tmp_path: Path) -> None:
    """Without a scale QGemm gives a float; MatMulIntegerToFloat and DynamicQuantizeMatMul always do."""
    for proto in (
        node("QGemm", "q xs xz m ms mz c", "y", domain=MS),
        node("MatMulIntegerToFloat", "q m xs ms xz mz f", "y", domain=MS),
        node("MatMulIntegerToFloat", "q m xs msc xz mzc", "y", domain=MS),
    ):
        nodes = [node("QuantizeLinear", "x xs xz", "q"), proto]
        weights = {**WEIGHTS, "f": values(5)}
        used = {name: weights[name] for one in nodes for name in one.input if name in weights}
        model = network(nodes, {"x": [3, 8]}, ["y"], used)
        x = {"x": values(3, 8)}
        wanted = run_onnx(model, x)["y"]
        module = read(model, tmp_path)
        np.testing.assert_allclose(Interpreter(module).run(x)["y"], wanted, rtol=1e-5, atol=1e-5)


def test_products_with_what_is_quantized_as_it_comes(tmp_path: Path) -> None:
    """Integers are exact; scales, their product with the sums and the summand round in float32."""
    dynamic = [
        [node("DynamicQuantizeMatMul", "x m ms mz f", "y", domain=MS)],
        [node("DynamicQuantizeMatMul", "x m msc mzc", "y", domain=MS)],
        [
            node("DynamicQuantizeLinear", "x", "q s z"),
            node("MatMulIntegerToFloat", "q m s ms z mz f", "y", domain=MS),
        ],
    ]
    for nodes in dynamic:
        weights = {**WEIGHTS, "f": values(5)}
        used = {name: weights[name] for one in nodes for name in one.input if name in weights}
        model = network(nodes, {"x": [3, 8]}, ["y"], used)
        module = absorbed(read(model, tmp_path))
        assert "DynamicQuantizeLinear" in ops(module)
        x = values(3, 8)
        wanted = run_onnx(model, {"x": x})["y"]
        np.testing.assert_allclose(Interpreter(module).run({"x": x})["y"], wanted, rtol=1e-6, atol=1e-6)


def test_a_mean_over_axes(tmp_path: Path) -> None:
    """ONNX Runtime has no kernel of QLinearReduceMean: the mean of what the integers mean, in whole steps."""
    proto = node("QLinearReduceMean", "q xs xz ys yz", "r", domain=MS, axes=[2, 3], keepdims=0)
    module = read(model_of(proto, IMAGE), tmp_path)
    x = values(*IMAGE)
    stored = np.clip(np.rint(x / np.float32(0.017)) + 121, 0, 255) - 121
    mean = (stored * 0.017).mean((2, 3))
    wanted = (np.clip(np.rint(mean / STEP) + 130, 0, 255) - 130) * STEP
    assert_within_a_step(Interpreter(module).run({"x": x})["y"], wanted, STEP)
    assert_within_a_step(Interpreter(absorbed(module)).run({"x": x})["y"], wanted, STEP)


@each("kind", [TensorProto.INT16, TensorProto.UINT16, TensorProto.INT4, TensorProto.UINT4])
def test_casts_of_onnx_runtime(kind: int, tmp_path: Path) -> None:
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    bits = 16 if kind in (TensorProto.INT16, TensorProto.UINT16) else 4
    zero = np.array(0 if kind in (TensorProto.INT16, TensorProto.INT4) else 1 << bits - 1, np.int32).astype(dtype)
    weights = {"s": number(4.0 / (1 << bits)), "z": zero}
    nodes = [
        node("QuantizeLinear", "x s z", "q", domain=MS),
        node("DequantizeLinear", "q s z", "y", domain=MS),
    ]
    model = network(nodes, {"x": [2, 3, 4]}, ["y"], weights, opset=21)
    x = {"x": values(2, 3, 4)}
    module = read(model, tmp_path)
    wanted = run_onnx(model, x)["y"]
    np.testing.assert_array_equal(Interpreter(module).run(x)["y"], wanted)
    absorbed(module)
    assert ops(module) == (["Clip"] if bits == 16 else ["quant.qcast", "Clip", "quant.dcast"])


@each("scale", ["ms", "mrc"])
def test_weights_that_are_moved_stay_integers(scale: str, tmp_path: Path) -> None:
    """Exporters transpose the weights of a layer, and give scalars or rows another shape."""
    nodes = [
        node("QuantizeLinear", "x xs xz", "q"),
        node("DequantizeLinear", "q xs xz", "a"),
        node("DequantizeLinear", f"mt {scale}", "f", axis=0),
        node("Unsqueeze", "f front", "u"),
        node("Transpose", "u", "t", perm=[2, 1, 0]),
        node("Reshape", "t dims", "n"),
        node("MatMul", "a n", "r"),
        node("QuantizeLinear", "r ys yz", "s"),
        node("DequantizeLinear", "s ys yz", "y"),
    ]
    weights = {**WEIGHTS, "mrc": MATRICES["msc"], "front": np.array([1]), "dims": np.array([8, 5])}
    used = {name: weights[name] for one in nodes for name in one.input if name in weights}
    model = network(nodes, {"x": [3, 8]}, ["y"], used)
    module = absorbed(read(model, tmp_path))
    assert ops(module) == ["quant.qcast", "MatMul", "quant.dcast"]
    x = {"x": values(3, 8)}
    assert_within_a_step(Interpreter(module).run(x)["y"], run_onnx(model, x)["y"], STEP)


def refused(nodes: Sequence[onnx.NodeProto], folder: Path) -> str:
    """What is said of a network that contradicts itself."""
    weights = {
        **WEIGHTS,
        "zero": number(0),
        "four": np.full(4, 0.1, np.float32),
        "fz": np.zeros(4, U8),
        "five": np.full(5, 0.1, np.float32),
        "holes": np.array([0.1, 0, 0.1, 0.1, 0.1, 0.1], np.float32),
    }
    used = {name: weights[name] for one in nodes for name in one.input if name in weights}
    with pytest.raises(InvalidModel) as caught:
        absorbed(read(network(nodes, {"x": [1, 3, 6, 6]}, ["y"], used), folder))
    return str(caught.value)


CONTRADICTIONS: Mapping[str, tuple[list[onnx.NodeProto], str]] = {
    "another scale is read": (
        [node("QuantizeLinear", "x xs xz", "q"), node("QLinearSigmoid", "q ys xz ys yz", "y", domain=MS)],
        "it reads 'q' with scale 0.03 and zero point 121, but it was quantized with 0.017 and 121.",
    ),
    "a scale of 0": (
        [node("QuantizeLinear", "x xs xz", "q"), node("QLinearSigmoid", "q xs xz zero yz", "y", domain=MS)],
        "op 'y' (top.QuantizeLinear): its scale is 0, but scales must be above 0.",
    ),
    "a scale of 0 of a channel": (
        [node("DequantizeLinear", "w holes", "f", axis=0), node("Conv", "x f", "y")],
        "node 'DequantizeLinear_f' (DequantizeLinear): the scale of 'w' is not above 0 everywhere.",
    ),
    "scales along another axis": (
        [node("QuantizeLinear", "x four fz", "q", axis=1), node("DequantizeLinear", "q four fz", "y", axis=1)],
        "node 'QuantizeLinear_q' (QuantizeLinear): 4 scales do not fit axis 1 of extent 3.",
    ),
    "scales along no axis": (
        [node("QuantizeLinear", "x four fz", "q", axis=7), node("DequantizeLinear", "q four fz", "y", axis=7)],
        "node 'QuantizeLinear_q' (QuantizeLinear): its scales are along axis 7, and its operand has 4 dimensions.",
    ),
    "scales of a filter along another axis": (
        [node("DequantizeLinear", "w five", "f", axis=0), node("Conv", "x f", "y")],
        "node 'DequantizeLinear_f' (DequantizeLinear): 5 scales do not fit axis 0 of extent 6.",
    ),
}


@each("case", CONTRADICTIONS)
def test_contradictions_are_told(case: str, tmp_path: Path) -> None:
    nodes, expected = CONTRADICTIONS[case]
    assert refused(nodes, tmp_path).endswith(f"{expected} Quantize the network again.")
