"""The life of a network, names, types, quantization parameters, and convolution's rules one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tpuc_lang as tl
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import IntegerAttr, Module, print_module
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.caffe import reference
from tests.frontends.lang.programs import Array, begin_anew, compiled, const, floats, integers, numbers, result


def sentence(call: Callable[[], object]) -> str:
    with pytest.raises(tl.LangError) as caught:
        call()
    return str(caught.value)


# Life


def test_the_published_example(tmp_path: Path) -> None:
    x = tl.Tensor(dtype="float32", shape=[1, 3, 173, 141])
    weight = tl.Tensor(dtype="float32", shape=[64, 3, 7, 7], data=numbers(64, 3, 7, 7), is_const=True)
    bias = tl.Tensor(dtype="float32", shape=64, data=numbers(64), is_const=True)
    conv = tl.conv_v2(x, weight, bias=bias, stride=[2, 2], pad=[0, 0, 1, 1], out_dtype="float32")
    assert conv.shape == (1, 64, 84, 69)  # `pad` is up, down, left, right
    module = tl.compile("model_def", inputs=[x], outputs=[conv], cmp=True, folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model_def_in_f32.npz",
        "model_def_origin.mlir",
        "model_def_top_f32_all_weight.npz",
    ]
    text = (tmp_path / "model_def_origin.mlir").read_text(encoding="utf-8")
    assert "pads = [0, 1, 0, 1]" in text  # top, left, bottom, right
    assert module.attributes["module.FLOPs"] == IntegerAttr(109428480)
    assert re.findall(r'loc\("(\w+)"\)\n', text) == ["BMTensor0", "BMTensor1", "BMTensor2", "BMTensor3"]
    with np.load(tmp_path / "model_def_top_f32_all_weight.npz") as weights:
        assert sorted(weights) == ["BMTensor1", "BMTensor2"]


@pytest.mark.chip("bm1684x")
def test_what_was_written_compiles(tmp_path: Path) -> None:
    x = floats(1, 3, 12, 10)
    y = tl.softmax(tl.relu(tl.conv_v2(x, const(numbers(4, 3, 3, 3)))), axis=1)
    compiled(y, [x], tmp_path)
    session = Session(chip="bm1684x", quantize="f16")
    session.deploy(session.load(tmp_path / "net_origin.mlir"), tmp_path / "net.bmodel")
    assert (tmp_path / "net.bmodel").stat().st_size > 0


def test_the_same_module_as_from_onnx(tmp_path: Path) -> None:
    w, b = numbers(4, 3, 3, 3), numbers(4)
    x = tl.Tensor([1, 3, 8, 8], name="x")
    conv = tl.conv_v2(x, const(w), const(b), stride=[2, 2], pad=[1, 0, 1, 0], out_name="conv")
    relu = tl.relu(conv, out_name="relu")
    written = tl.compile("net", [x], [tl.maxpool(relu, [2, 2], [2, 2], out_name="y")], folder=tmp_path)
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], strides=[2, 2], pads=[1, 1, 0, 0]),
        helper.make_node("Relu", ["conv"], ["relu"]),
        helper.make_node("MaxPool", ["relu"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3, 8, 8]), ("y", None))
    ]
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    session = Session()
    imported = session.registry.get("tpuc.frontends", "onnx").read(tmp_path / "net.onnx", _options(), session.registry)
    assert _ops(written) == _ops(imported)


def _options() -> Any:
    from tpuc.api import ImportOptions

    return ImportOptions("net")


def _ops(module: Module) -> list[str]:
    """The text of the operations, without names of weights."""
    lines = print_module(module).splitlines()
    return [re.sub(r" loc\(.*", "", line) for line in lines if line.startswith("    ")]


def test_init_and_deinit() -> None:
    assert sentence(lambda: tl.init("BM1684X")) == "init: there is a network already; call tl.deinit() first."
    x = floats(1, 2)
    tl.deinit()
    assert sentence(lambda: tl.relu(x)) == "relu: there is no network; call tl.init(DEVICE) first."
    assert sentence(lambda: tl.Tensor([1])) == "Tensor: there is no network; call tl.init(DEVICE) first."
    tl.init("BM1684X", True)
    assert sentence(lambda: tl.relu(x)) == (
        "relu: tensor 'BMTensor0' belongs to another network; build it after tl.init."
    )


def test_inputs_and_outputs_of_compile(tmp_path: Path) -> None:
    x, weight = floats(1, 2), const(numbers(1, 2))
    y = tl.add(x, weight)

    def refusal(inputs: list[tl.Tensor], outputs: list[tl.Tensor]) -> str:
        return sentence(lambda: tl.compile("net", inputs, outputs, folder=tmp_path))

    assert refusal([], [y]) == "compile: a network needs inputs and outputs; give both."
    assert refusal([y], [y]) == "compile: input 'BMTensor2' is computed; inputs are separate tensors."
    assert refusal([weight], [y]) == "compile: input 'BMTensor1' is a constant; inputs are separate tensors."
    assert refusal([floats(1)], [y]) == (
        "compile: tensor 'BMTensor0' is neither computed nor constant; name it among the inputs, or give it data with "
        "is_const=True."
    )
    assert not list(tmp_path.iterdir())


def test_only_what_outputs_need_is_written(tmp_path: Path) -> None:
    x = floats(1, 4)
    y = tl.relu(x)
    tl.exp(y)
    module = compiled([y, tl.tanh(y)], [x], tmp_path)
    assert [op.op.name for op in module.walk() if op.operands and op.results] == ["top.Input", "top.Relu", "top.Tanh"]


def test_a_deep_network_does_not_exhaust_the_stack(tmp_path: Path) -> None:
    x = floats(1, 4)
    y = x
    for _ in range(1500):
        y = tl.abs(y)
    np.testing.assert_array_equal(result(y, [x], tmp_path), np.abs(numbers(1, 4)))


# Tensors


def test_names() -> None:
    assert [tl.Tensor([1]).name, tl.Tensor([1], name="mine").name, tl.Tensor([1]).name] == [
        "BMTensor0",
        "mine",
        "BMTensor1",
    ]
    assert tl.relu(tl.Tensor([1], name="BMTensor2")).name == "BMTensor3"
    assert tl.relu(tl.Tensor([1]), out_name="out").name == "out"
    assert sentence(lambda: tl.Tensor([1], name="mine")) == "name 'mine' is taken; give another one, or none."


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({}, "Tensor: neither shape nor data are given; give one of them."),
        ({"shape": [1, 0]}, "Tensor 'BMTensor0': extents are at least 1, its shape is [1, 0]."),
        (
            {"shape": [1], "dtype": "float8"},
            "Tensor 'BMTensor0': dtype 'float8' is not known; use one of float32, float16",
        ),
        (
            {"shape": [2], "data": np.ones(3)},
            "Tensor 'BMTensor0': its data are [3], its shape is [2]; make them equal.",
        ),
        ({"shape": [2], "is_const": True}, "Tensor 'BMTensor0': a constant needs data."),
        (
            {"shape": [1], "dtype": "int8", "data": np.array([200])},
            "Tensor 'BMTensor0': its data do not fit int8; give integers within its range.",
        ),
        (
            {"shape": [1], "dtype": "int8", "data": np.array([0.5])},
            "Tensor 'BMTensor0': its data do not fit int8; give integers within its range.",
        ),
        ({"shape": [1], "scale": 0.1}, "Tensor: tensor 'BMTensor0' is float32; scale and zero point are for integers."),
        (
            {"shape": [1], "dtype": "int8", "scale": 0.0},
            "Tensor: scales of tensor 'BMTensor0' must be above 0, this is 0.0.",
        ),
        (
            {"shape": [1], "dtype": "int8", "zero_point": 128},
            "Tensor: the zero point 128 of tensor 'BMTensor0' does not fit int8.",
        ),
    ],
)
def test_tensors_that_make_no_sense(arguments: dict[str, Any], wanted: str) -> None:
    assert sentence(lambda: tl.Tensor(**arguments)).startswith(wanted)


# conv_v2


X, W = (1, 4, 9, 8), (6, 4, 3, 2)


def reference_conv(x: Array, w: Array, pads: tuple[int, int, int, int], **more: Any) -> Array:
    up, down, left, right = pads
    padded = np.pad(x, ((0, 0), (0, 0), (up, down), (left, right)))
    return reference.convolution(padded, w, more.pop("stride", (1, 1)), (0, 0), **more)


def test_conv_by_default(tmp_path: Path) -> None:
    x, w = floats(*X), const(numbers(*W))
    y = tl.conv_v2(x, w)
    assert (y.shape, y.dtype) == ((1, 6, 7, 7), "float32")
    np.testing.assert_allclose(result(y, [x], tmp_path), reference_conv(numbers(*X), numbers(*W), (0,) * 4), atol=1e-5)


def test_conv_pads_up_down_left_right(tmp_path: Path) -> None:
    x = floats(*X)
    y = tl.conv_v2(x, const(numbers(*W)), stride=[2, 1], pad=[1, 2, 3, 0])
    assert y.shape == (1, 6, (9 + 3 - 3) // 2 + 1, 8 + 3 - 2 + 1)
    wanted = reference_conv(numbers(*X), numbers(*W), (1, 2, 3, 0), stride=(2, 1))
    np.testing.assert_allclose(result(y, [x], tmp_path), wanted, atol=1e-5)


def test_conv_depthwise_when_all_channels_are_groups(tmp_path: Path) -> None:
    x, w = floats(*X), numbers(4, 1, 3, 3)
    y = tl.conv_v2(x, const(w), group=4, dilation=[2, 2])
    wanted = reference_conv(numbers(*X), w, (0,) * 4, group=4, dilation=2)
    np.testing.assert_allclose(result(y, [x], tmp_path), wanted, atol=1e-5)


@each("shape", [(6,), (1, 6, 1, 1)])
def test_conv_bias(shape: tuple[int, ...], tmp_path: Path) -> None:
    x, bias = floats(*X), numbers(6)
    y = tl.conv_v2(x, const(numbers(*W)), const(bias.reshape(shape)))
    wanted = reference_conv(numbers(*X), numbers(*W), (0,) * 4) + bias.reshape(6, 1, 1)
    np.testing.assert_allclose(result(y, [x], tmp_path), wanted, atol=1e-5)


@each(
    ("dtype", "wanted", "got"),
    [
        ("float32", None, "float32"),
        ("float16", None, "float16"),
        ("float32", "float16", "float16"),
        ("int8", None, "int32"),
        ("uint8", None, "int32"),
        ("int8", "uint32", "uint32"),
        ("int8", "float32", "float32"),
    ],
)
def test_conv_result_types(dtype: str, wanted: str | None, got: str) -> None:
    x = tl.Tensor(X, dtype=dtype)
    weight = const(np.ones(W), "int8" if dtype.endswith("int8") else dtype)
    assert tl.conv_v2(x, weight, out_dtype=wanted).dtype == got


@each(
    ("more", "wanted"),
    [
        ({"stride": [1]}, "conv_v2: stride has 1 numbers; give 2."),
        ({"dilation": [1, 1, 1]}, "conv_v2: dilation has 3 numbers; give 2."),
        ({"pad": [1, 1]}, "conv_v2: pad has 2 numbers; give 4."),
        ({"stride": [0, 1]}, "conv_v2: stride is [0, 1]; its numbers are at least 1."),
        ({"pad": [0, 0, 0, -1]}, "conv_v2: pad is [0, 0, 0, -1]; its numbers are at least 0."),
        ({"group": 3}, "conv_v2: 4 input and 6 output channels do not divide into 3 groups."),
        ({"group": 2}, "conv_v2: weight 6x4x3x2 has 4 channels per filter; 4 input channels in group 2 need 2."),
        ({"dilation": [9, 9]}, "conv_v2: kernel 3x2 reaches over 19 elements, the padded input has 9."),
        ({"out_dtype": "int8"}, "conv_v2: out_dtype is 'int8'; use one of int32, uint32, float32, float16."),
        (
            {"out_dtype": "int32"},
            "conv_v2: out_dtype is int32 for a float32 input; use a float type, or quantize the input.",
        ),
        ({"input_zp": 3}, "conv_v2 (input_zp): tensor 'BMTensor0' is float32; scale and zero point are for integers."),
        ({"input_zp": [1, 2]}, "conv_v2: input_zp has 2 numbers; give one, or 4, one per input channel."),
        ({"weight_zp": [1] * 6}, "conv_v2: weight_zp has 6 numbers; give one, or 4, one per input channel."),
    ],
)
def test_conv_rules(more: dict[str, Any], wanted: str) -> None:
    begin_anew()
    x, weight = tl.Tensor(X), const(numbers(*W))
    assert sentence(lambda: tl.conv_v2(x, weight, **more)) == wanted


def test_conv_shapes() -> None:
    x = tl.Tensor(X)
    assert sentence(lambda: tl.conv_v2(x, const(numbers(64, 1, 7, 7)))).startswith(
        "conv_v2: weight 64x1x7x7 has 1 channels"
    )
    assert sentence(lambda: tl.conv_v2(x, const(numbers(6, 4, 3)))) == (
        "conv_v2: input and weight have 4 dimensions, these are [1, 4, 9, 8] and [6, 4, 3]."
    )
    bias = const(numbers(1, 5, 1, 1))
    assert sentence(lambda: tl.conv_v2(x, const(numbers(*W)), bias)) == (
        "conv_v2: the bias is [1, 5, 1, 1]; 6 output channels need [1, 6, 1, 1]."
    )


# Integers


@each("dtype", ["int8", "uint8"])
@each("input_zp", [None, 5, [1, 2, 3, 4]])
@each("weight_zp", [None, -3, [4, 3, 2, 1]])
def test_conv_of_integers_is_exact(dtype: str, input_zp: Any, weight_zp: Any, tmp_path: Path) -> None:
    x = integers(*X, dtype=dtype)
    w = np.random.default_rng(1).integers(-128, 128, W)
    y = tl.conv_v2(x, const(w, "int8"), pad=[1, 1, 0, 2], input_zp=input_zp, weight_zp=weight_zp)
    assert y.dtype == "int32"
    offsets = [np.array(0 if zp is None else zp).reshape(1, -1, 1, 1) for zp in (input_zp, weight_zp)]
    assert x.data is not None
    wanted = reference_conv(x.data.astype(np.int64) - offsets[0], w - offsets[1], (1, 1, 0, 2))
    np.testing.assert_array_equal(result(y, [x], tmp_path), wanted)


def test_weight_zero_points_of_groups(tmp_path: Path) -> None:
    x, w = integers(*X), np.random.default_rng(1).integers(-128, 128, (6, 2, 3, 3))
    y = tl.conv_v2(x, const(w, "int8"), group=2, weight_zp=[1, 2, 3, 4])
    offsets = np.repeat([[1, 2], [3, 4]], 3, 0)[:, :, None, None]
    assert x.data is not None
    wanted = reference_conv(x.data.astype(np.int64), w - offsets, (0,) * 4, group=2)
    np.testing.assert_array_equal(result(y, [x], tmp_path), wanted)


def test_zero_points_are_noted_and_checked() -> None:
    x = tl.Tensor(X, dtype="int8")
    weight = const(np.ones(W), "int8")
    tl.conv_v2(x, weight, input_zp=7)
    assert x.zero_point == 7
    assert sentence(lambda: tl.conv_v2(x, weight, input_zp=8)) == (
        "conv_v2 (input_zp): tensor 'BMTensor0' has the zero point 7, but here it is 8; use the same one."
    )
    mixed = tl.Tensor(X)
    assert (
        sentence(lambda: tl.conv_v2(mixed, weight))
        == "conv_v2: input and weight are float32 and int8; both must be integers."
    )


def test_sums_that_float_cannot_hold() -> None:
    x = tl.Tensor((1, 2048, 1, 1), dtype="int8")
    weight = const(np.full((1, 2048, 1, 1), 127), "int8")
    assert sentence(lambda: tl.conv_v2(x, weight)) == (
        "conv_v2: its sums may reach 33292288, beyond the 24 bits that are exact here; use smaller weights, or "
        "dequantize both operands."
    )


def test_scales_of_a_product() -> None:
    x = tl.Tensor(X, dtype="int8", scale=0.5, zero_point=3)
    per_channel = const(np.ones(W), "int8", scale=[0.25, 0.5, 1, 2, 4, 8], zero_point=0)
    y = tl.conv_v2(x, per_channel)
    assert (y.scale, y.zero_point) == ((0.125, 0.25, 0.5, 1.0, 2.0, 4.0), 0)


def test_quantized_convolution_against_its_real_values(tmp_path: Path) -> None:
    x = integers(*X, scale=0.05, zero_point=-4)
    w = np.random.default_rng(1).integers(-128, 128, W)
    y = tl.dequantize(tl.conv_v2(x, const(w, "int8", scale=0.01)))
    assert x.data is not None
    wanted = reference_conv((x.data.astype(np.float64) + 4) * 0.05, w * 0.01, (0,) * 4)
    np.testing.assert_allclose(result(y, [x], tmp_path), wanted, rtol=1e-5, atol=1e-4)


def test_quantize_and_requantize(tmp_path: Path) -> None:
    x = tl.Tensor((6,), data=np.array([-100, -0.26, 0.25, 0.74, 0.76, 100], np.float32))
    q = tl.quantize(x, 0.5, 10)
    assert (q.dtype, q.scale, q.zero_point) == ("int8", 0.5, 10)
    again = tl.requantize(q, 1.0, 0, "uint8")
    np.testing.assert_array_equal(result(q, [x], tmp_path), [-128, 9, 10, 11, 12, 127])
    np.testing.assert_array_equal(result(again, [x], tmp_path), [0, 0, 0, 0, 1, 58])  # ties to even, then cut to 0..255


def test_integers_keep_their_meaning_or_are_refused(tmp_path: Path) -> None:
    x = integers(1, 4, 4, 4, scale=0.5, zero_point=2)
    other = integers(1, 4, 4, 4, scale=0.5, zero_point=3, seed=1)
    for y in (
        tl.reshape(x, [4, 16]),
        tl.permute(x, [0, 2, 3, 1]),
        tl.maxpool(x, [2, 2]),
        tl.relu(x),
        tl.split(x, 1, 2)[1],
    ):
        assert (y.dtype, y.scale, y.zero_point) == ("int8", 0.5, 2)
    assert x.data is not None
    np.testing.assert_array_equal(result(tl.relu(x), [x], tmp_path), np.maximum(x.data, 2))  # 0 is stored as 2
    assert sentence(lambda: tl.concat([x, other], axis=1)) == (
        "concat: tensor 'BMTensor0' has scale 0.5 and zero point 2, 'BMTensor1' has scale 0.5 and zero point 3; "
        "requantize one of them."
    )
    assert sentence(lambda: tl.sigmoid(x)) == (
        "sigmoid: tensor 'BMTensor0' is int8, and this computes floats; use tl.dequantize first."
    )
    assert sentence(lambda: tl.max(x, tl.Tensor((1, 4, 4, 4), dtype="int16"))).endswith("is int16; cast one of them.")
    assert sentence(lambda: tl.dequantize(integers(1, 4))).endswith(
        "needs a scale and a float type to convert to; it has int8."
    )
