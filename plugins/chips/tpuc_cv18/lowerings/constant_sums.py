"""Sums of a tensor and a constant in a network that is quantised already, as biases of a product with 1."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import Calibrated, LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_chip_parts.lowering import STEPS, is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array
from tpuc_cv18.lowerings.qdm import stored_qdm

_MOST_CHANNELS = 4096
"""Biases are read for every tile of their channels."""
_COARSER = 2.5
"""Steps of values that lose their zero point are up to so many times as large."""


def adds_constant(node: LoweringNode[top.Add | top.Sub]) -> bool:
    """Is it a sum of a computed tensor and a constant within it, whose result has a stated scale, or lost it and the
    tensor has not?
    """
    op, types = node.op, node.operand_types
    if len(types) != 2 or sum(constant is None for constant in node.constants) != 1:
        return False
    place = _computed(node)
    constant, type_ = node.constants[1 - place], types[place]
    assert constant is not None
    if any(factor != 1.0 for factor in op.coeff or ()):
        return False
    if is_stated(node):
        if not _reaches(node, type_):
            return False
    elif not (type_.is_quantised and zero_point(type_)):
        return False
    is_within = type_.dims == node.result_type.dims and constant.ndim <= len(type_.dims)
    return is_within and _split(constant, type_.dims)[1] <= _MOST_CHANNELS


def sum_with_constant(node: LoweringNode[top.Add | top.Sub], build: LoweringBuilder) -> Value:
    """A depthwise convolution: the dimensions that the constant extends over are channels, and it is their bias."""
    op, place = node.op, _computed(node)
    value, constant = node.operands[place], node.constants[1 - place]
    assert constant is not None
    signs = (1, 1) if isinstance(op, top.Add) else (-1, 1) if op.is_reverse else (1, -1)
    result = node.quantised_result_type()
    images, channels, size = _split(constant, value.tensor.dims)
    image = (images, channels, size, 1)
    own = _aligned(constant, len(value.tensor.dims))
    first, last = _extent(own.shape)
    whole = np.broadcast_to(own, (*own.shape[:first], *value.tensor.dims[first:last], *own.shape[last:])).reshape(-1)
    filters: Array = np.full((channels, 1, 1, 1), signs[place] * STEPS, np.float32)
    product = stored_qdm(filters, np.array([1 / STEPS]), whole * signs[1 - place], value.tensor.uniform, result.uniform)
    assert product.bias is not None
    if image != value.tensor.dims:
        plain = value.tensor.with_shape(image).at(None)
        value = build(tpu.Reshape(shape=image), [value], plain, f"{node.name}_image")
    operands = [
        value,
        build.weight("filter_i8", product.filters, "si8"),
        build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1)),
    ]
    lowered = tpu.Conv2D(
        kernel_shape=(1, 1),
        group=channels,
        multiplier=product.multipliers,
        rshift=product.right_shifts,
        with_bias=True,
        offset_in_bias=bool(zero_point(result)),
        do_relu=op.do_relu and not zero_point(result),
        relu_limit=op.relu_limit,
        **QDM,
    )
    if image == result.dims:
        return build(lowered, operands, result)
    total = build(lowered, operands, result.with_shape(image), f"{node.name}_sum")
    return build(tpu.Reshape(shape=result.dims), [total], result)


def _reaches(node: LoweringNode, type_: TensorType) -> bool:
    """Is a step of the operand, also where it loses its stated integers later, one that a filter of a byte has room
    for in the result's?
    """
    wanted = node.result_type.uniform.scale
    if type_.is_quantised:
        return type_.uniform.scale < STEPS / _COARSER * wanted
    if node.chip is None or not isinstance(type_.element, Calibrated):
        return False
    return node.chip.quantise(type_, node.mode, node.name).uniform.scale < STEPS * wanted


def _computed(node: LoweringNode) -> int:
    """Which operand is no constant."""
    return 0 if node.constants[0] is None else 1


def _aligned(constant: Array, rank: int) -> Array:
    return constant.reshape(*(1,) * (rank - constant.ndim), *constant.shape)


def _extent(dims: tuple[int, ...]) -> tuple[int, int]:
    """From where to where dimensions are more than 1."""
    places = [index for index, size in enumerate(dims) if size > 1]
    return (places[0], places[-1] + 1) if places else (0, 0)


def _split(constant: Array, dims: tuple[int, ...]) -> tuple[int, int, int]:
    """The numbers of elements before, within and behind the dimensions that the constant extends over."""
    first, last = _extent(_aligned(constant, len(dims)).shape)
    return math.prod(dims[:first]), math.prod(dims[first:last]), math.prod(dims[last:])
