"""Networks that ONNX Runtime's quantizer wrote: their casts become types, and the values are its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto
from onnxruntime.quantization import QuantType
from tpuc.api import F32, InvalidModel, Module, Node, ScalarType, StringAttr, TensorType, Uniform
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.frontends.onnx.networks import network, node
from tests.frontends.quantized.networks import (
    FORMS,
    Form,
    attention,
    by_onnxruntime,
    quantized,
    quantized_dynamically,
    residual,
    samples,
)
from tests.frontends.quantized.op_by_op import steps_by_op

STEPS = 1
"""Of the output's scale: sums of unlike scales and tables of functions are rounded in another order."""

ROUNDED_OTHERWISE = {True: ("top.AvgPool",), False: ("top.AvgPool", "top.Softmax")}
"""Without and with optimizations: averages are exact here, and those of ONNX Runtime sums of floats, which miss a half
where the mean of a few integers is one. Distributions are those that it gives without optimizations.
"""


def transformed(path: Path) -> Module:
    return Session(Registry()).transform(path)


def evaluated(module: Module, x: NDArray[np.float32]) -> NDArray[np.float32]:
    (result,) = Interpreter(module).run({"x": x}).values()
    return result


def casts(module: Module) -> list[str]:
    """The ops that change between floats and integers."""
    return [op.op.name for op in module.main.operations if "cast" in op.op.name or "Linear" in op.op.name]


@each("opset", [13, 21])
@each("form", FORMS)
def test_values_are_those_of_onnxruntime(form: str, opset: int, tmp_path: Path) -> None:
    path = quantized(tmp_path, FORMS[form], opset)
    module = transformed(path)
    scale = module.main.operations[-2].operands[0].tensor.uniform.scale
    wanted = [by_onnxruntime(path, x) for x in samples(20, seed=9)]
    got = [evaluated(module, x) for x in samples(20, seed=9)]
    steps = np.abs(np.asarray(got) - np.asarray(wanted)) / scale
    assert np.mean(steps > STEPS + 1e-3) <= 0.001
    assert steps.max() <= 2
    assert np.mean(np.argmax(got, -1) == np.argmax(wanted, -1)) >= 0.95  # of 20: all but one


@each("plain", [True, False])
@each("make", [residual, attention])
@each("form", FORMS)
def test_every_op_alone_is_that_of_onnxruntime(
    form: str, make: Callable[[int], onnx.ModelProto], plain: bool, tmp_path: Path
) -> None:
    """Given the runtime's own operands no op is off by more than a step, and by one only next to a half."""
    path = quantized(tmp_path, FORMS[form], 13, make(13))
    found = steps_by_op(transformed(path), path, samples(20, seed=9), plain=plain)
    assert len(found) >= 7
    for one in found:
        assert one.steps.max() <= 1, one
        if one.op not in ROUNDED_OTHERWISE[plain]:
            assert (one.steps > 0).mean() < 0.001, one


@each("form", FORMS)
def test_casts_are_left_only_at_the_ends(form: str, tmp_path: Path) -> None:
    module = transformed(quantized(tmp_path, FORMS[form], 13))
    assert casts(module) == ["quant.qcast", "quant.dcast"]
    assert module.attributes["module.state"] == StringAttr("TOP_QUANTIZED")


@each("seed", range(9, 13))
def test_dynamic_quantization_computes_the_same_integers(seed: int, tmp_path: Path) -> None:
    path = quantized_dynamically(tmp_path, 13)
    module = transformed(path)
    assert set(casts(module)) == {"top.DynamicQuantizeLinear"}
    x = samples(1, seed=seed)[0]
    wanted = by_onnxruntime(path, x)
    np.testing.assert_allclose(evaluated(module, x), wanted, rtol=0, atol=1e-6 * float(np.abs(wanted).max()))


def _pair(scales: tuple[float, float], zero_points: tuple[int, int] = (3, 3)) -> onnx.ModelProto:
    nodes = [
        node("QuantizeLinear", "x s1 z1", "q"),
        node("DequantizeLinear", "q s2 z2", "d"),
        node("Relu", "d", "y"),
    ]
    weights = {
        "s1": np.float32(scales[0]),
        "s2": np.float32(scales[1]),
        "z1": np.int8(zero_points[0]),
        "z2": np.int8(zero_points[1]),
    }
    return network(nodes, {"x": [1, 4]}, ["y"], {name: np.asarray(value) for name, value in weights.items()})


@each(
    ("model", "sentence"),
    [
        (_pair((0.5, 0.25)), "it reads 'q' with scale 0.25 and zero point 3, but it was quantized with 0.5 and 3"),
        (
            _pair((0.5, 0.5), (3, 4)),
            "it reads 'q' with scale 0.5 and zero point 4, but it was quantized with 0.5 and 3",
        ),
        (_pair((0.0, 0.0)), "its scale is 0, but scales must be above 0"),
        (_pair((np.nan, np.nan)), "its scale is nan, but scales must be above 0"),
    ],
)
def test_contradicting_scales_are_refused(model: onnx.ModelProto, sentence: str, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "net.onnx")
    with pytest.raises(InvalidModel, match=sentence):
        transformed(tmp_path / "net.onnx")


def test_a_weight_with_a_scale_of_zero_is_refused(tmp_path: Path) -> None:
    nodes = [node("DequantizeLinear", "w s z", "d", axis=0), node("MatMul", "x d", "y")]
    weights = {
        "w": np.ones((4, 2), np.int8),
        "s": np.array([1, 0, 1, 1], np.float32),
        "z": np.zeros(4, np.int8),
    }
    onnx.save(network(nodes, {"x": [1, 4]}, ["y"], weights), tmp_path / "net.onnx")
    with pytest.raises(InvalidModel, match="the scale of 'w' is not above 0 everywhere"):
        transformed(tmp_path / "net.onnx")


def test_inputs_and_outputs_of_integers_have_their_type(tmp_path: Path) -> None:
    """Bytes in, bytes out, as whole networks of integers have them."""
    nodes = [
        node("DequantizeLinear", "x s z", "d"),
        node("Relu", "d", "r"),
        node("QuantizeLinear", "r s z", "y"),
    ]
    model = network(nodes, {"x": [1, 4]}, ["y"], {"s": np.array(0.5, np.float32), "z": np.array(7, np.uint8)})
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT8
    onnx.save(model, tmp_path / "net.onnx")
    module = transformed(tmp_path / "net.onnx")
    assert isinstance(module.main.inputs[0].tensor.element, Uniform)
    assert [op.op.name for op in module.main.operations[1:-1]] == ["top.Relu"]
    x = np.array([[0, 6, 8, 255]], np.uint8)
    (result,) = Interpreter(module).run({"x": x}).values()
    assert result.tolist() == [[7, 7, 8, 255]]


def test_values_of_16_bits_are_floats(tmp_path: Path) -> None:
    nodes = [
        node("QuantizeLinear", "x s z", "q"),
        node("DequantizeLinear", "q s z", "d"),
        node("Exp", "d", "y"),
    ]
    weights = {"s": np.array(1e-4, np.float32), "z": np.array(0, np.int16)}
    onnx.save(network(nodes, {"x": [1, 4]}, ["y"], weights, opset=21), tmp_path / "net.onnx")
    remarks: list[str] = []
    module = Session(Registry(), remark=remarks.append).transform(tmp_path / "net.onnx")
    assert not casts(module)
    (remark,) = remarks
    assert remark == (
        "net: 1 value is quantized to more than 8 bits: compiled as floats with the same limits, without rounding"
    )
    # 2**15 steps of 1e-4 on one side, one less on the other.
    found = evaluated(module, np.array([[-9, 0, 1, 9]], np.float32))
    np.testing.assert_allclose(found, np.exp([[-3.2768, 0, 1, 3.2767]]), rtol=1e-6)


@each("make", [residual, attention])
@each(
    "form",
    [Form(QuantType.QInt16, QuantType.QInt8, False), Form(QuantType.QUInt16, QuantType.QUInt8, False)],
    ids=["s16s8", "u16u8"],
)
def test_limits_of_16_bits_are_those_of_onnxruntime(
    form: Form, make: Callable[[int], onnx.ModelProto], tmp_path: Path
) -> None:
    """The quantizer leaves out relus where the integers cannot be below 0, so their limits count."""
    path = quantized(tmp_path, form, 21, make(21))
    assert "Relu" not in {entry.op_type for entry in onnx.load(path).graph.node}
    remarks: list[str] = []
    module = Session(Registry(), remark=remarks.append).transform(path)
    assert re.fullmatch("quantized: [0-9]+ values are quantized to more than 8 bits: .*", remarks[0])
    for x in samples(10, seed=9):
        wanted = by_onnxruntime(path, x, plain=True)
        # Some dozen roundings to 16 bits; a softmax of large scores makes much of them.
        assert np.abs(evaluated(module, x) - wanted).max() < 2e-3 * np.abs(wanted).max()


@each("kind", [np.int16, np.uint16])
def test_wide_integers_at_the_ends_are_whole_numbers(kind: type[np.integer[Any]], tmp_path: Path) -> None:
    nodes = [
        node("DequantizeLinear", "x s z", "d"),
        node("Abs", "d", "a"),
        node("QuantizeLinear", "a t z", "y"),
    ]
    weights = {"s": np.array(0.5, np.float32), "t": np.array(0.25, np.float32), "z": np.array(100, kind)}
    model = network(nodes, {"x": [1, 4]}, ["y"], weights, opset=21)
    type_ = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    for end in (model.graph.input[0], model.graph.output[0]):
        end.CopyFrom(onnx.helper.make_tensor_value_info(end.name, type_, [1, 4]))
    onnx.save(model, tmp_path / "net.onnx")
    x = np.array([[0, 90, 101, np.iinfo(kind).max]], kind)
    wanted = by_onnxruntime(tmp_path / "net.onnx", x, plain=True)
    assert wanted.dtype == kind
    np.testing.assert_array_equal(evaluated(transformed(tmp_path / "net.onnx"), x.astype(np.float32)), wanted)


@each(("kind", "zero"), [(np.uint16, 0), (np.uint16, 20000), (np.int16, 0), (np.int16, -32768)])
def test_limits_of_16_bits_stay(kind: type[np.generic], zero: int, tmp_path: Path) -> None:
    """ONNX Runtime's quantizer leaves out relus that they stand for."""
    nodes = [
        node("Conv", "x w", "c"),
        node("QuantizeLinear", "c s z", "q1"),
        node("DequantizeLinear", "q1 s z", "d1"),
        node("MaxPool", "d1", "p", kernel_shape=[2, 2]),
        node("QuantizeLinear", "p s z", "q2"),
        node("DequantizeLinear", "q2 s z", "d2"),
        node("Neg", "d2", "y"),
    ]
    filters = np.random.default_rng(4).normal(0, 1, (3, 2, 1, 1)).astype(np.float32)
    weights = {"w": filters, "s": np.array(1e-5, np.float32), "z": np.array(zero, kind)}
    path = tmp_path / "net.onnx"
    onnx.save(network(nodes, {"x": [1, 2, 4, 4]}, ["y"], weights, opset=21), path)
    module = transformed(path)
    limits = [op for op in module.main.operations if isinstance(op.op, top.Clip) or getattr(op.op, "do_relu", False)]
    assert len(limits) == 1  # a maximum of what has limits has them
    x = np.random.default_rng(5).normal(0, 1, (1, 2, 4, 4)).astype(np.float32)
    (got,) = Interpreter(module).run({"x": x}).values()
    wanted = by_onnxruntime(path, x)
    assert np.unique(wanted).size > 2
    assert np.abs(got - wanted).max() <= 1e-5


@each("scales", [(0.0473, 0.0291, 0.0611), (0.5, 0.013, 0.31), (0.02, 0.02, 0.02)])
def test_sums_of_all_bytes_are_those_of_the_kernel_for_integers(scales: tuple[float, float, float]) -> None:
    """Where it multiplies and adds in one rounding, and all but a few where it does not."""
    points = (120, 7, 133)
    numbers = [(np.float32(scale), np.uint8(point)) for scale, point in zip(scales, points, strict=True)]
    constants = {f"s{index}": scale for index, (scale, _) in enumerate(numbers)}
    constants |= {f"z{index}": point for index, (_, point) in enumerate(numbers)}
    graph = onnx.helper.make_graph(
        [node("QLinearAdd", "a s0 z0 b s1 z1 s2 z2", "y", domain="com.microsoft")],
        "sum",
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.UINT8, [256, 256]) for name in "ab"],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [256, 256])],
        [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    imports = [onnx.helper.make_opsetid("", 13), onnx.helper.make_opsetid("com.microsoft", 1)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=8)
    a, b = np.meshgrid(np.arange(256, dtype=np.uint8), np.arange(256, dtype=np.uint8))
    feeds = {"a": np.ascontiguousarray(a), "b": np.ascontiguousarray(b)}
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    types = [
        TensorType(a.shape, Uniform(ScalarType("u8"), F32, float(np.float32(scale)), point))
        for scale, point in zip(scales, points, strict=True)
    ]
    op = top.Add(round_mode="HalfToEven")
    (got,) = op.evaluate(Node(op, tuple(types[:2]), (types[2],), "sum"), [a, b])
    steps = np.abs(got.astype(int) - np.asarray(wanted).astype(int))
    assert steps.max() <= 1
    assert np.count_nonzero(steps) <= 4
