"""The arithmetic of TOP ops on quantized integers, bit-identical to TFLite's kernels.

TOP ops use it if their result type has a scale; such modules are imported from pre-quantized files.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tpuc.api import Node, Str, TensorType, Types, Uniform, UniformPerAxis, numpy_dtype

from tpuc_ops.arrays import Array
from tpuc_ops.convolution import as_images, convolve, exact_dtype
from tpuc_ops.integers import integer_bounds
from tpuc_ops.pooling import window_counts, window_maxima, window_sums
from tpuc_ops.quant import division, lengths, tflite
from tpuc_ops.quant.arithmetic import Rounding, dequantize, quantize_float
from tpuc_ops.quant.casts import parameters

_FAR = 1 << 30
"""An integer beyond every 16-bit result, whatever the zero point."""


class ComputesIntegers:
    """An op that defines its arithmetic on stored integers, with separate scales for operands and result.

    Other ops compute in floats, even in a quantized network.
    """

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        """True if the op can compute with operands of these types (absent ones left out) and this result."""
        return all(isinstance(type.element, Uniform) for type in operands)


@dataclass(frozen=True, kw_only=True)
class Rescales(ComputesIntegers):
    """An op that rescales its operands to the scale of its result.

    With `round_mode` HalfToEven, it computes in float32 on dequantized values and rounds, as ONNX defines it; otherwise
    it uses TFLite's arithmetic.
    """

    round_mode: Str | None = field(default=None, metadata={"of_integers": True})


class Product(ComputesIntegers):
    """A convolution or matrix product; its filter may have scales per output channel, and its bias is int32."""

    def filter_axis(self, operands: Types) -> int:
        """Return the filter dimension along which scales may vary."""
        return 0

    def of_outputs(self, filters: Uniform | UniformPerAxis) -> Uniform | UniformPerAxis:
        """Return the filter's element type with its scales per output channel."""
        return filters

    def sums(self, x: Array, filters: Array, /, *, whole: bool = False) -> Array:
        """Return the sums of products only. `whole`: operands are integers whose sums their type represents exactly."""
        raise NotImplementedError(f"{type(self).__name__} is a Product, so it must implement sums() and finished()")

    def finished(self, node: Node, sums: Array, bias: Sequence[Array], /) -> Array:
        """Return the result from such sums: add the bias, and apply a relu if there is one."""
        raise NotImplementedError(f"{type(self).__name__} is a Product, so it must implement sums() and finished()")

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        source, filters = (type.element for type in operands[:2])
        if isinstance(filters, UniformPerAxis):
            return isinstance(source, Uniform) and filters.axis == self.filter_axis(operands)
        return isinstance(source, Uniform) and isinstance(filters, Uniform)


class SometimesBytes:
    """A lowering of products with `float_sums` that cannot return the sums of every node as floats."""

    def returns_bytes(self, node: Node) -> bool:
        """True if this one gives bytes, whatever reads them."""
        raise NotImplementedError(f"{type(self).__name__} is SometimesBytes, so it must implement returns_bytes()")


class KeepsScale(ComputesIntegers):
    """An op whose operands and result share one scale and zero point."""


def is_quantized(node: Node) -> bool:
    """True if the op must compute with integers."""
    return node.result_type.is_quantized


def in_floats(op: Any, node: Node, operands: Sequence[Array]) -> Array | None:
    """Return the result of an op that computes on dequantized values; None if it has integer arithmetic."""
    if op.round_mode != "HalfToEven":
        return None
    operand_types, result_types = (
        tuple(type.shape_only() for type in t) for t in (node.operand_types, node.result_types)
    )
    plain = Node(op, operand_types, result_types, node.name)
    arrays = [
        dequantize(array, *parameters(type)).astype(np.float32) if type.is_quantized else array
        for array, type in zip(operands, node.operand_types, strict=True)
    ]
    (values,) = op.evaluate(plain, arrays)
    y = node.result_type.uniform
    with np.errstate(invalid="ignore"):
        whole = np.nan_to_num(np.rint(values / np.float32(y.scale)), posinf=_FAR, neginf=-_FAR)
    return tflite.bounded(np.clip(whole, -_FAR, _FAR), y, y.bounds)


def _or_in_floats(function: Callable[..., Array]) -> Callable[..., Array]:
    """Decorate an integer function: ops with `round_mode` HalfToEven compute on dequantized values instead."""

    @functools.wraps(function)
    def compute(op: Any, node: Node, operands: Sequence[Array], *rest: Any) -> Array:
        result = in_floats(op, node, operands)
        return function(op, node, operands, *rest) if result is None else result

    return compute


def bounds_of(op: Any, type: TensorType) -> tuple[int, int]:
    """Return the bounds of the results of an op that may apply a relu."""
    return integer_bounds(type, getattr(op, "do_relu", False), getattr(op, "relu_limit", -1.0))


def conv(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.Conv`."""

    def sums(x: Array, weight: Array) -> Array:
        return convolve(as_images(x), as_images(weight), op.window(), op.group, whole=True)

    return _product(op, node, operands, sums)


def deconv(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.Deconv`."""

    def sums(x: Array, weight: Array) -> Array:
        return op.sums(as_images(x), as_images(weight), whole=True)

    return _product(op, node, operands, sums)


def _product(op: Any, node: Node, operands: Sequence[Array], sums: Callable[[Array, Array], Array]) -> Array:
    """Compute integer sums of products exactly in a float type, add the bias, and requantize."""
    x_type, y_type = node.operand_types[0].uniform, node.result_type.uniform
    element = op.of_outputs(_weight_element(node))
    weight = operands[1].astype(np.int64) - parameters(node.operand_types[1])[1]
    limit = max(x_type.bounds[1] - x_type.zero_point, x_type.zero_point - x_type.bounds[0])
    dtype = exact_dtype(limit, weight)
    acc = sums(tflite.centered(operands[0], x_type).astype(dtype), weight.astype(dtype)).astype(np.int64)
    channels = (1, -1, *(1,) * (acc.ndim - 2))
    if len(operands) > 2 and operands[2].size:
        acc += operands[2].astype(np.int64).reshape(channels)
    result = tflite.product_sums(acc, x_type, element, y_type, channels, bounds_of(op, node.result_type))
    return result.reshape(node.result_type.dims)


def _weight_element(node: Node) -> Uniform | UniformPerAxis:
    element = node.operand_types[1].element
    if not isinstance(element, (Uniform, UniformPerAxis)):
        raise ValueError("its filter is not quantized, but its other operands are")
    return element


def matmul(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.MatMul`; scales per channel belong to the columns of the result."""
    x_type, y_type = node.operand_types[0].uniform, node.result_type.uniform
    element = _weight_element(node)
    left = tflite.centered(operands[0], x_type)
    right = operands[1].astype(np.int64) - parameters(node.operand_types[1])[1]
    left = np.swapaxes(left, -1, -2) if op.left_transpose else left
    right = np.swapaxes(right, -1, -2) if op.right_transpose else right
    depth, limit = right.shape[-2], max(x_type.bounds[1] - x_type.zero_point, x_type.zero_point - x_type.bounds[0])
    # float64 holds every sum of fewer than 2**53 / 2**16 products of 8 bits exactly, and BLAS is fast with it.
    if depth * limit * int(np.abs(right).max(initial=0)) > 1 << 53:
        raise ValueError("the integer sums of this op do not fit 53 bits")
    acc = (left.astype(np.float64) @ right.astype(np.float64)).astype(np.int64)
    if len(operands) > 2 and operands[2].size:
        acc = acc + operands[2].astype(np.int64).reshape(-1)
    bounds = bounds_of(op, node.result_type)
    if left.ndim > 2 and isinstance(element, Uniform) and op.round_mode != "HalfToEven":
        # BATCH_MATMUL of TFLite: two roundings, as everywhere where no filter is constant.
        factor = float(np.float32(x_type.scale) * np.float32(element.scale)) / y_type.scale
        result = tflite.bounded(tflite.scaled(acc, factor), y_type, bounds)
    else:
        result = tflite.product_sums(acc, x_type, element, y_type, (-1,), bounds)
    result = np.swapaxes(result, -1, -2) if op.output_transpose else result
    return result.reshape(node.result_type.dims)


def add(op: Any, node: Node, operands: Sequence[Array], signs: Sequence[int]) -> Array:
    """`top.Add` and `top.Sub` of two operands."""
    types = [type.element for type in node.operand_types]
    pair = [one for one in types if isinstance(one, Uniform)]
    if op.round_mode == "HalfToEven" and tuple(signs) == (1, 1) and len(pair) == len(types) == 2 and not op.coeff:
        whole = _even_sum(operands, pair, node.result_type.uniform)
        return tflite.bounded(whole, node.result_type.uniform, bounds_of(op, node.result_type))
    return _rescaled_sum(op, node, operands, signs)


def _even_sum(operands: Sequence[Array], types: Sequence[Uniform], result: Uniform) -> Array:
    """Return the sum in steps of the result, as ONNX Runtime's integer kernel computes it: each operand times the
    float32 ratio of scales, all zero points combined, with one rounding per fused product and sum.
    """
    first, second = (np.float32(one.scale) / np.float32(result.scale) for one in types)
    points = _fused(types[0].zero_point, first, second * np.float32(types[1].zero_point))
    offset = np.float32(result.zero_point) - points
    total = _fused(operands[0], first, _fused(operands[1], second, offset))
    return np.rint(total) - result.zero_point


def _fused(number: Array | int, factor: np.float32, added: Array | np.float32) -> Array:
    """Fused multiply-add of a small integer, a float32, and a float32: the product is exact in float64, the sum is
    rounded once.
    """
    return np.asarray(np.asarray(number, np.float64) * np.float64(factor) + added, np.float32)


@_or_in_floats
def _rescaled_sum(op: Any, node: Node, operands: Sequence[Array], signs: Sequence[int]) -> Array:
    if len(operands) != 2 or any(factor != 1.0 for factor in op.coeff or ()):
        raise ValueError("quantized sums need two operands without coeff")
    types = [type.uniform for type in node.operand_types]
    return tflite.add(operands, types, signs, node.result_type.uniform, bounds_of(op, node.result_type))


@_or_in_floats
def multiply(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.Mul` of two operands."""
    if len(operands) != 2:
        raise ValueError("quantized products need two operands")
    types = [type.uniform for type in node.operand_types]
    bounds = bounds_of(op, node.result_type)
    return tflite.multiply(operands[0], operands[1], types, node.result_type.uniform, bounds)


def square(node: Node, operands: Sequence[Array]) -> Array:
    """`top.Pow` with exponent 2 of 16-bit integers."""
    bounds = integer_bounds(node.result_type, False, -1.0)
    return tflite.square(operands[0], node.operand_types[0].uniform, node.result_type.uniform, bounds)


def divide(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.Div`."""
    left, right = (1, 0) if op.is_reverse else (0, 1)
    types = (node.operand_types[left].uniform, node.operand_types[right].uniform)
    bounds = bounds_of(op, node.result_type)
    return division.divide(operands[left], operands[right], types, node.result_type.uniform, bounds)


def where(node: Node, operands: Sequence[Array]) -> Array:
    """`top.Where` of the stored integers."""
    _same_types(node)
    return np.where(operands[0] != 0, operands[1], operands[2])


def average_pool(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.AvgPool`: the exact mean in the result's scale, rounded half to even. If both types are equal, the stored
    integers are averaged as in TFLite, unless `round_mode` is HalfToEven, which is ONNX's arithmetic.
    """
    source, y = node.operand_types[0].uniform, node.result_type.uniform
    window, counts_pads = op.window(), op.count_include_pad and any(op.pads)
    counts = window_counts(op.size(node), window, counts_pads)
    if op.round_mode == "HalfToEven" or source != y or counts_pads:
        sums = window_sums(tflite.centered(as_images(operands[0]), source), window)
        means = np.rint(sums / counts * (source.scale / y.scale))
        return tflite.bounded(means, y, bounds_of(op, node.result_type)).reshape(node.result_type.dims)
    means = tflite.mean_under_windows(window_sums(as_images(operands[0]).astype(np.int64), window), counts)
    return _kept(means, op, node).reshape(node.result_type.dims)


def max_pool(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.MaxPool` of the stored integers."""
    _same_types(node)
    return _kept(window_maxima(as_images(operands[0]), op.window()), op, node).reshape(node.result_type.dims)


def extreme(node: Node, operands: Sequence[Array], function: np.ufunc) -> Array:
    """`top.Max` and `top.Min` of the stored integers."""
    _same_types(node)
    return function(*operands)


@_or_in_floats
def concat(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.Concat`: operands with another scale are requantized in float32."""
    target = node.result_type.uniform
    parts = [_in_scale(x, t.uniform, target) for x, t in zip(operands, node.operand_types, strict=True)]
    return _kept(np.concatenate(parts, op.axis), op, node)


def _in_scale(x: Array, source: Uniform, target: Uniform) -> Array:
    if (source.scale, source.zero_point) == (target.scale, target.zero_point):
        return x
    factor = np.float32(source.scale) * (np.float32(1) / np.float32(target.scale))
    values = x.astype(np.float32) * factor + np.float32(-source.zero_point) * factor
    return quantize_float(values, 1.0, target.zero_point, Rounding.HALF_AWAY_FROM_ZERO, x.dtype)


@_or_in_floats
def softmax(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.Softmax`."""
    source, y = node.operand_types[0].uniform, node.result_type.uniform
    if op.log:
        return tflite.log_softmax(operands[0], op.axis, source, y, op.beta)
    return tflite.softmax(operands[0], op.axis, source, y, op.beta)


def normalize(op: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.Normalize` over channels, in steps of 1/128."""
    source, y = node.operand_types[0].uniform, node.result_type.uniform
    if op.across_spatial or (operands[1] != 1).any() or y.scale != 1 / lengths.STEPS:
        raise ValueError("quantized Normalize needs the channels as axis, a scale of 1, and steps of 1/128")
    return lengths.normalize(operands[0], 1, source, y)


def pad(op: Any, node: Node, operands: Sequence[Array], function: Callable[..., Array]) -> Array:
    """`top.Pad` with the stored integer of its value."""
    _same_types(node)
    type = node.result_type.uniform
    dtype = operands[0].dtype
    value = quantize_float(op.val, type.scale, type.zero_point, Rounding.HALF_AWAY_FROM_ZERO, dtype)
    return function(operands[0], op.paddings, op.mode, int(value))


@_or_in_floats
def reduce(op: Any, node: Node, operands: Sequence[Array], axes: tuple[int, ...]) -> Array:
    """`top.Reduce`: means and sums in the result's scale, extremes of stored integers."""
    x, source, y = operands[0], node.operand_types[0].uniform, node.result_type.uniform
    bounds = integer_bounds(node.result_type, False, -1.0)
    match op.mode:
        case "ReduceMean":
            result = tflite.reduce_mean(x, axes, source, y, bounds)
        case "ReduceSum":
            result = tflite.reduce_sum(x, axes, source, y, bounds)
        case "ReduceMax" | "ReduceMin":
            _same_types(node)
            result = x.max(axes) if op.mode == "ReduceMax" else x.min(axes)
        case mode:
            raise ValueError(f"{mode} of quantized values is not supported")
    return result.reshape(node.result_type.dims)


def relu(node: Node, operands: Sequence[Array], limit: float) -> Array:
    """`top.Relu`, in the result's scale."""
    source, y = node.operand_types[0].uniform, node.result_type.uniform
    factor = float(np.float32(source.scale) / np.float32(y.scale))
    acc = tflite.scaled(tflite.centered(operands[0], source), factor)
    return tflite.bounded(acc, y, integer_bounds(node.result_type, True, limit))


def leaky_relu(node: Node, operands: Sequence[Array], slope: float) -> Array:
    """`top.LeakyRelu`."""
    source, y = node.operand_types[0].uniform, node.result_type.uniform
    factor = float(np.float32(source.scale) * np.float32(slope) / np.float32(y.scale))
    return _slopes(node, operands[0], np.asarray(1), factor)


@_or_in_floats
def prelu(_: Any, node: Node, operands: Sequence[Array]) -> Array:
    """`top.PRelu`."""
    source, slope, y = node.operand_types[0].uniform, node.operand_types[1].uniform, node.result_type.uniform
    factor = float(np.float32(source.scale) * np.float32(slope.scale) / np.float32(y.scale))
    return _slopes(node, operands[0], tflite.centered(operands[1], slope), factor)


def _slopes(node: Node, x: Array, slope: Array, factor: float) -> Array:
    source, y = node.operand_types[0].uniform, node.result_type.uniform
    return tflite.slopes(x, source, y, slope, factor, integer_bounds(node.result_type, False, -1.0))


def hard_swish(node: Node, operands: Sequence[Array]) -> Array:
    """`top.HardSwish`."""
    return tflite.hard_swish(operands[0], node.operand_types[0].uniform, node.result_type.uniform)


def function_of_one(
    node: Node,
    operands: Sequence[Array],
    function: Callable[[Array], Array],
    rounding: Rounding = Rounding.HALF_AWAY_FROM_ZERO,
) -> Array:
    """Any unary element-wise op, by a table of all 8-bit integers."""
    source, y = node.operand_types[0].uniform, node.result_type.uniform
    if source.storage.bits > 8:
        raise ValueError(f"quantized values of {source.storage.bits} bits are not supported here")
    return tflite.by_table(operands[0], source, y, function, rounding)


def resize(op: Any, node: Node, operands: Sequence[Array], values: Callable[[Array], Array]) -> Array:
    """`top.Interp` with linear interpolation; `values` computes the op in float32, which unsigned bytes use."""
    _same_types(node)
    if op.mode != "linear" or op.coord_mode == "pytorch_half_pixel":
        raise ValueError(f"mode {op.mode} with {op.coord_mode} is not supported for quantized values")
    if node.result_type.storage.is_unsigned:
        return tflite.resize_linear_bytes(values(operands[0].astype(np.float32)))
    _, _, rows, columns = node.result_type.dims
    return tflite.resize_linear(operands[0], (rows, columns), op.coord_mode)


def _same_types(node: Node) -> None:
    """Raise ValueError unless operands and result share one scale: some kernels move stored integers regardless of
    scales.
    """
    wanted = node.result_type.uniform
    for type in node.operand_types:
        if type.is_quantized and (type.uniform.scale, type.uniform.zero_point) != (wanted.scale, wanted.zero_point):
            raise ValueError("operands and result must have the same scale and zero point")


def _kept(x: Array, op: Any, node: Node) -> Array:
    """Clip stored integers to the bounds of a relu."""
    low, high = bounds_of(op, node.result_type)
    return np.clip(x, low, high).astype(numpy_dtype(node.result_type.storage))
