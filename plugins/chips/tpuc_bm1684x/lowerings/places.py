"""Helpers of gathers and scatters: operands in a common type, and indices as addresses."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import ElementType, LoweringBuilder, LoweringNode, TensorType, Value, numpy_dtype
from tpuc_chip_parts.held import held
from tpuc_ops import tpu
from tpuc_ops.quant.arithmetic import Rounding, quantize_float

from tpuc_bm1684x.lowerings.common import INTEGERS, Array, decompose_rescale, float_weight
from tpuc_bm1684x.operands import MAX_EXTENT

_LARGEST_PLACE = 1 << 31


def reshaped(build: LoweringBuilder, value: Value, dims: Sequence[int], name: str) -> Value:
    """The value under another shape; the value itself when it has that shape."""
    shape = tuple(dims)
    if value.tensor.dims == shape:
        return value
    return build(tpu.Reshape(shape=shape), [value], value.tensor.with_shape(shape).at(None), name)


def finished(build: LoweringBuilder, value: Value, type_: TensorType) -> Value:
    """The node's result: `value` under the result's shape and the node's name."""
    return build(tpu.Reshape(shape=type_.dims), [value], value.tensor.with_shape(type_.dims).at(None))


def common_element(node: LoweringNode, indices: Sequence[int]) -> ElementType:
    """The element type in which operands are moved together: their own if they share one, else that of the result."""
    types = [node.operands[index].tensor for index in indices if node.constants[index] is None]
    if types and len({type_.element for type_ in types}) == 1:
        return types[0].element
    if node.mode in INTEGERS and all(type_.is_quantized for type_ in types):
        return node.quantized_result_type().element
    return node.float_result_type().element


def as_element(
    node: LoweringNode, build: LoweringBuilder, index: int, element: ElementType, dims: Sequence[int] | None = None
) -> Value:
    """An operand converted to `element`, optionally reshaped; a constant becomes a weight of that type."""
    value, constant = node.operands[index], node.constants[index]
    wanted = TensorType(node.operand_types[index].dims, element)
    shape = wanted.dims if dims is None else tuple(dims)
    if constant is not None:
        return stored_weight(build, f"operand{index}", constant.reshape(shape), wanted.with_shape(shape))
    type_ = value.tensor
    if type_.element != element:
        name = f"{node.name}_operand{index}"
        if type_.is_quantized and wanted.is_quantized:
            multiplier, shift = decompose_rescale(node, type_, wanted)
            value = build(tpu.MulShift(multiplier=multiplier, rshift=shift), [value], wanted, name)
        else:
            value = build(tpu.Cast(with_scale=True), [value], wanted, name)
    return reshaped(build, value, shape, f"{node.name}_shaped{index}")


def stored_weight(build: LoweringBuilder, suffix: str, array: Array, type_: TensorType) -> Value:
    """Create a constant in the stored type of `type_`."""
    if not type_.is_quantized:
        return float_weight(build, suffix, array, type_.storage.name)
    dtype = numpy_dtype(type_.storage)
    name = {"int8": "si8", "uint8": "ui8"}[np.dtype(dtype).name]
    return build.weight(f"{suffix}_{name}", stored_values(array, type_), name)


def stored_values(array: Array, type_: TensorType) -> Array:
    """Real values converted to the stored type of `type_`; overflow of a float type becomes its largest number."""
    if not type_.is_quantized:
        return held(array, type_.storage).astype(np.float32)
    uniform = type_.uniform
    dtype = numpy_dtype(type_.storage)
    return quantize_float(array, uniform.scale, uniform.zero_point, Rounding.HALF_AWAY_FROM_ZERO, dtype)


def whole(constant: Array, extent: int) -> Array:
    """Constant indices converted to non-negative ones; raises ValueError for an index beyond the extent."""
    indices = constant.astype(np.int64)
    if indices.size and not -extent <= int(indices.min()) <= int(indices.max()) < extent:
        raise ValueError(f"an index in {int(indices.min())}..{int(indices.max())} is beyond the extent {extent}")
    return np.where(indices < 0, indices + extent, indices)


def places_of(
    node: LoweringNode,
    build: LoweringBuilder,
    dims: Sequence[int],
    extent: int,
    stride: int = 1,
    base: Array | None = None,
) -> Value:
    """Operand 1, indices along one dimension, as int32 positions of shape `dims`: ``index * stride + base``."""
    constant = node.constants[1]
    if constant is not None:
        places = whole(constant, extent) * stride
        places = places if base is None else places + base
        return build.weight("places", np.broadcast_to(places, constant.shape).reshape(dims).astype(np.int32))
    value, op = node.operands[1], tpu.RowIndex(extent=extent, stride=stride)
    operands = [reshaped(build, value, compact(value.tensor.size), f"{node.name}_indices")]
    if base is not None:
        operands = [value, build.weight("bases", np.ascontiguousarray(base).astype(np.int32))]
    return reshaped(build, build(op, operands, None, f"{node.name}_places"), dims, f"{node.name}_numbers")


def compact(size: int) -> tuple[int, ...]:
    """Two-dimensional extents for `size` elements that fit the chip's fields."""
    rows = next((count for count in range(1, MAX_EXTENT) if size % count == 0 and size // count <= MAX_EXTENT), 1)
    return (rows, size // rows)


def offsets(dims: Sequence[int], steps: Sequence[int], varying: Sequence[int]) -> Array:
    """Sums of index * step over the dimensions `varying`; the other dimensions have extent 1."""
    total = np.zeros((1,) * len(dims), np.int64)
    for axis in varying:
        shape = [1] * len(dims)
        shape[axis] = dims[axis]
        total = total + (np.arange(dims[axis], dtype=np.int64) * steps[axis]).reshape(shape)
    return total


def too_far(dims: Sequence[int]) -> str | None:
    """The refusal of tensors with more elements than int32 can index, None if they fit."""
    size = math.prod(dims)
    return f"at most {_LARGEST_PLACE - 1} elements, there are {size}" if size >= _LARGEST_PLACE else None
