"""Expand operators on stored integers to dequantization, the float operator, and quantization."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, helper

from tpuc_onnx.checking import BOUNDS, is_bounded
from tpuc_onnx.dynamic import centered_name, is_quantized_as_it_comes
from tpuc_onnx.layouts import channels_first, channels_last
from tpuc_onnx.script import Script

WINDOW = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
"""Attributes of a convolution."""

_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def dequantized(script: Script, index: int, scale: int, zero: int, axis: int = 1) -> str:
    """Dequantize the operand at `index` by the operands that hold its scale and zero point: one number, or one per
    element of `axis`.
    """
    name, scales = script.node.inputs[index], script.node.inputs[scale]
    zeros = script.node.inputs[zero] if script.has(zero) else ""
    if max(len(script.shape(entry)) for entry in (scales, zeros) if entry) > 1:
        return _by_arithmetic(script, name, scales, zeros)
    return cast_to_floats(script, name, scales, zeros, axis)


def cast_to_floats(script: Script, name: str, scale: str, zero: str = "", axis: int = 1) -> str:
    """Write a DequantizeLinear."""
    parameters = [_plain(script, entry) for entry in (scale, zero) if entry]
    rank = max(len(script.shape(name)), 1)
    return script("DequantizeLinear", name, *parameters, axis=axis % rank)


def _by_arithmetic(script: Script, name: str, scale: str, zero: str) -> str:
    """Dequantize by arithmetic, for parameters with a shape of their own."""
    value = to_float(script, name)
    if zero:
        value = script("Sub", value, to_float(script, zero))
    return script("Mul", value, scale)


def quantize(script: Script, value: str, scale: int, zero: int, like: str = "") -> None:
    """Quantize `value` to the node's result, with the type of `like` if the zero point is absent."""
    result = script.node.outputs[0]
    if script.has(zero):
        zeros = script.node.inputs[zero]
    else:
        dtype = helper.tensor_dtype_to_np_dtype(script.types.elem_type(like))
        zeros = script.constant("zero_point", np.zeros((), dtype))
    script("QuantizeLinear", value, _plain(script, script.node.inputs[scale]), _plain(script, zeros), result=result)


def to_float(script: Script, name: str) -> str:
    """Convert stored numbers to floats, without scale."""
    return script("Cast", name, to=TensorProto.FLOAT)


def _plain(script: Script, name: str) -> str:
    """Return a parameter; a list with one number becomes that number."""
    if script.types.shape(name) != (1,):
        return name
    return script("Reshape", name, script.constant(f"{name}_dims", np.zeros(0, np.int64)))


def _bias(script: Script, index: int, axis: int) -> list[str]:
    """Return the bias as floats; its scale is the product of the factors' scales. Empty if there is none."""
    if not script.has(index):
        return []
    left, right = script.node.inputs[1], script.node.inputs[4]
    count = max(math.prod(script.shape(left)), math.prod(script.shape(right)))
    dims = np.array([] if count == 1 else [count], np.int64)
    scale = script("Reshape", script("Mul", left, right), script.constant("bias_scale_dims", dims))
    name = script.node.inputs[index]
    return [script("DequantizeLinear", name, scale, axis=axis % max(len(script.shape(name)), 1))]


def conv(script: Script) -> None:
    """Expand QLinearConv; ONNX Runtime's variant may have channels last."""
    x, w = dequantized(script, 0, 1, 2), dequantized(script, 3, 4, 5, 0)
    rank, is_last = len(script.shape(script.node.inputs[0])), bool(script.node.attributes.get("channels_last", 0))
    operands = [channels_first(script, x, rank) if is_last else x, w, *_bias(script, 8, 0)]
    result = script("Conv", *operands, **script.attributes(*WINDOW))
    quantize(script, channels_last(script, result, rank) if is_last else result, 6, 7)


def matmul(script: Script) -> None:
    """Expand QLinearMatMul: parameters are per row on the left, per column on the right."""
    left, right = dequantized(script, 0, 1, 2, -2), dequantized(script, 3, 4, 5, -1)
    quantize(script, script("MatMul", left, right), 6, 7)


def gemm(script: Script) -> None:
    """Expand QGemm. The result stays float if it has no scale; `alpha` also applies to the bias."""
    has_rows = bool(script.node.attributes.get("transB", 0))
    factors = [dequantized(script, 0, 1, 2), dequantized(script, 3, 4, 5, 0 if has_rows else 1)]
    attributes = script.attributes("alpha", "transA", "transB")
    operands = [*factors, *_bias(script, 6, -1)]
    target = "" if script.has(7) else script.node.outputs[0]
    result = script("Gemm", *operands, result=target, beta=attributes.get("alpha"), **attributes)
    if script.has(7):
        quantize(script, result, 7, 8, script.node.inputs[0])


def dynamic_matmul(script: Script) -> None:
    """Expand DynamicQuantizeMatMul: the left operand is quantized dynamically."""
    name, scale, _ = script.many("DynamicQuantizeLinear", script.node.inputs[0], count=3)
    _product_of_centered(script, name, scale, (1, 2, 3), 4)


def matmul_to_float(script: Script) -> None:
    """Expand MatMulIntegerToFloat, also with a dynamically quantized operand."""
    name, zero = script.node.inputs[0], script.node.inputs[4] if script.has(4) else ""
    if is_quantized_as_it_comes(script.graph, name, zero):
        _product_of_centered(script, name, script.node.inputs[2], (1, 3, 5), 6)
        return
    with_summand(script, "MatMul", [dequantized(script, 0, 2, 4, -2), dequantized(script, 1, 3, 5, -1)], 6)


def _product_of_centered(script: Script, name: str, scale: str, right: tuple[int, int, int], summand: int) -> None:
    """Multiply integers, then by both scales, with ONNX Runtime's rounding. `right`: indices of the right operand, its
    scale, and its zero point.
    """
    index, scale_index, zero_index = right
    matrix = to_float(script, script.node.inputs[index])
    if script.has(zero_index):
        matrix = script("Sub", matrix, to_float(script, script.node.inputs[zero_index]))
    product = script("MatMul", centered_name(name), matrix)
    with_summand(script, "Mul", [product, script("Mul", scale, script.node.inputs[scale_index])], summand)


def with_summand(script: Script, op: str, operands: Sequence[str], index: int) -> None:
    """Write the node's result: `op`, plus the operand at `index` if there is one."""
    result = script.node.outputs[0]
    if script.has(index):
        script("Add", script(op, *operands), script.node.inputs[index], result=result)
    else:
        script(op, *operands, result=result)


@dataclass(frozen=True)
class Elementwise:
    """An operator with one or two operands, each followed by scale and zero point, then those of the result."""

    op: str
    count: int
    attributes: tuple[str, ...] = ()

    def __call__(self, script: Script) -> None:
        operands = [dequantized(script, index, index + 1, index + 2) for index in range(0, 3 * self.count, 3)]
        result = script(self.op, *operands, **script.attributes(*self.attributes))
        quantize(script, result, 3 * self.count, 3 * self.count + 1, script.node.inputs[0])


def softmax(script: Script) -> None:
    """Expand QLinearSoftmax; up to opset 12, all dimensions from `axis` on are normalized jointly."""
    x, dims = dequantized(script, 0, 1, 2), script.shape(script.node.inputs[0])
    axis = script.node.attributes.get("axis", -1) % len(dims)
    if script.node.attributes["opset"] < 13:
        rows = script("Softmax", script("Flatten", x, axis=axis), axis=-1)
        result = script("Reshape", rows, script.constant("dims", np.array(dims, np.int64)))
    else:
        result = script("Softmax", x, axis=axis)
    quantize(script, result, 3, 4, script.node.inputs[0])


@dataclass(frozen=True)
class Pool:
    """An operator on images, whose channels may be last."""

    op: str
    attributes: tuple[str, ...] = ()

    def __call__(self, script: Script) -> None:
        x, rank = dequantized(script, 0, 1, 2), len(script.shape(script.node.inputs[0]))
        is_last = bool(script.node.attributes.get("channels_last", 0))
        x = channels_first(script, x, rank) if is_last else x
        result = script(self.op, x, **script.attributes(*self.attributes))
        result = channels_last(script, result, rank) if is_last else result
        quantize(script, result, 3, 4, script.node.inputs[0])


def reduce_mean(script: Script) -> None:
    """Expand QLinearReduceMean."""
    axes = script.constant("axes", np.array(script.node.attributes["axes"], np.int64))
    result = script("ReduceMean", dequantized(script, 0, 1, 2), axes, **script.attributes("keepdims"))
    quantize(script, result, 3, 4, script.node.inputs[0])


def concat(script: Script) -> None:
    """Expand QLinearConcat: the result's parameters come first, then each operand with its own."""
    starts = range(2, len(script.node.inputs), 3)
    parts = [dequantized(script, index, index + 1, index + 2) for index in starts]
    quantize(script, script("Concat", *parts, **script.attributes("axis")), 0, 1)


def where(script: Script) -> None:
    """Expand QLinearWhere."""
    chosen = [dequantized(script, index, index + 1, index + 2) for index in (1, 4)]
    quantize(script, script("Where", script.node.inputs[0], *chosen), 7, 8)


def quantize_linear(script: Script) -> None:
    """Expand ONNX Runtime's QuantizeLinear, which supported more types than the standard one."""
    _standard(script, "QuantizeLinear")


def dequantize_linear(script: Script) -> None:
    """Expand ONNX Runtime's DequantizeLinear."""
    _standard(script, "DequantizeLinear")


def _standard(script: Script, op: str) -> None:
    value, *given = (name for name in script.node.inputs if name)
    parameters = [_plain(script, name) for name in given]
    script(op, value, *parameters, result=script.node.outputs[0], **script.attributes("axis"))


def bounded_quantize_linear(script: Script) -> bool:
    """Expand QuantizeLinear with MQBench's bounds (`quant_min`, `quant_max`), which clip the operand."""
    if not is_bounded(script.node):
        return False
    scale, zero = script.required(1, "its scale"), script.required(2, "its zero point")
    shape = [1] * len(script.shape(script.node.inputs[0]))
    if scale.size > 1:
        shape[script.node.attributes.get("axis", 1)] = -1
    limits: list[str] = []
    for name in BOUNDS:
        real = (np.float32(script.node.attributes[name]) - zero.astype(np.float32)) * scale.astype(np.float32)
        limits.append(script.constant(name, real.reshape(shape if scale.size > 1 else ())))
    x = script.node.inputs[0]
    x = script("Min", script("Max", x, limits[0]), limits[1]) if scale.size > 1 else script("Clip", x, *limits)
    operands = (x, *script.node.inputs[1:])
    script("QuantizeLinear", *operands, result=script.node.outputs[0], **script.attributes("axis"))
    return True


def bounded_dequantize_linear(script: Script) -> bool:
    """Expand DequantizeLinear with such bounds, which it does not need."""
    if not is_bounded(script.node):
        return False
    script("DequantizeLinear", *script.node.inputs, result=script.node.outputs[0], **script.attributes("axis"))
    return True


QLINEAR: Mapping[str, Callable[[Script], bool | None]] = {
    "DequantizeLinear": bounded_dequantize_linear,
    "QLinearConv": conv,
    "QLinearMatMul": matmul,
    "QuantizeLinear": bounded_quantize_linear,
    "com.microsoft::DequantizeLinear": dequantize_linear,
    "com.microsoft::DynamicQuantizeMatMul": dynamic_matmul,
    "com.microsoft::MatMulIntegerToFloat": matmul_to_float,
    "com.microsoft::QGemm": gemm,
    "com.microsoft::QLinearAdd": Elementwise("Add", 2),
    "com.microsoft::QLinearAveragePool": Pool("AveragePool", _POOL),
    "com.microsoft::QLinearConcat": concat,
    "com.microsoft::QLinearConv": conv,
    "com.microsoft::QLinearGlobalAveragePool": Pool("GlobalAveragePool"),
    "com.microsoft::QLinearLeakyRelu": Elementwise("LeakyRelu", 1, ("alpha",)),
    "com.microsoft::QLinearMul": Elementwise("Mul", 2),
    "com.microsoft::QLinearReduceMean": reduce_mean,
    "com.microsoft::QLinearSigmoid": Elementwise("Sigmoid", 1),
    "com.microsoft::QLinearSoftmax": softmax,
    "com.microsoft::QLinearWhere": where,
    "com.microsoft::QuantizeLinear": quantize_linear,
}
