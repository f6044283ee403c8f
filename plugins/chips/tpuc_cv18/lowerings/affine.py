"""Sums and products of a tensor and constants in prequantized networks, as depthwise convolutions with a 1×1 kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import ABSENT, Calibrated, LoweringBuilder, LoweringNode, TensorType, Value
from tpuc_chip_parts.lowering import STEPS, is_stated
from tpuc_ops import top, tpu
from tpuc_ops.integers import zero_point

from tpuc_cv18.lowerings.common import QDM, Array
from tpuc_cv18.lowerings.qdm import stored_qdm

MOST_CHANNELS = 4096
"""Maximum number of channels; biases are loaded for every tile of their channels."""
_COARSER = 2.5
"""Steps of values that lose their zero point grow by up to this factor."""
_FURTHEST = 512
"""Range of the result in steps; summands beyond it saturate."""
_MOST_BIAS = 1 << 30


@dataclass(frozen=True)
class _Affine:
    """Operand `place` times `factor` plus `summand`; the constants broadcast."""

    place: int
    factor: Array
    summand: Array


def is_affine(node: LoweringNode[Any]) -> bool:
    """True for a tensor times and plus constants that broadcast to it, where the network is prequantized, or the result
    has lost its scale and the tensor still has a zero point.
    """
    affine = _affine(node)
    if affine is None:
        return False
    type_ = node.operand_types[affine.place]
    if is_stated(node):
        if not reaches(node, type_, float(np.abs(affine.factor).max(initial=0.0))):
            return False
    elif not (type_.is_quantized and zero_point(type_)):
        return False
    dims = np.broadcast_shapes(affine.factor.shape, affine.summand.shape)
    is_within = type_.dims == node.result_type.dims and len(dims) <= len(type_.dims)
    return is_within and split_by_constant(dims, type_.dims)[1] <= MOST_CHANNELS


def affine_product(node: LoweringNode[Any], build: LoweringBuilder) -> Value:
    """Lower to a depthwise convolution: the dimensions that the constants span become channels with their own
    multipliers and biases.
    """
    op, affine = node.op, _affine(node)
    assert affine is not None
    value, result = node.operands[affine.place], node.quantized_result_type()
    dims = value.tensor.dims
    own = np.broadcast_shapes(affine.factor.shape, affine.summand.shape)
    images, channels, size = split_by_constant(own, dims)
    image = (images, channels, size, 1)
    factor, summand = (over_channels(one, own, dims) for one in (affine.factor, affine.summand))
    source, target = value.tensor.uniform, result.uniform
    vanishes = np.abs(factor) * (source.scale * _MOST_BIAS) < _FURTHEST * STEPS * target.scale
    scales = np.where(vanishes, target.scale / source.scale / 2, np.abs(factor) / STEPS)
    filters = np.where(vanishes, 0, np.copysign(STEPS, factor)).astype(np.float32).reshape(channels, 1, 1, 1)
    reach = (_FURTHEST * target.scale) + np.abs(factor) * (source.scale * _FURTHEST)
    product = stored_qdm(filters, scales, summand.clip(-reach, reach), source, target)
    assert product.bias is not None
    if image != dims:
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


def reaches(node: LoweringNode[Any], type_: TensorType, factor: float) -> bool:
    """True when an 8-bit filter can represent the operand's step times a factor in steps of the result, including when
    the operand later loses its prequantized type.
    """
    wanted = node.quantized_result_type().uniform.scale
    if type_.is_quantized:
        return type_.uniform.scale * factor < STEPS / _COARSER * wanted
    if node.chip is None or not isinstance(type_.element, Calibrated):
        return False
    return node.chip.quantize(type_, node.mode, node.name).uniform.scale * factor < STEPS * wanted


def _affine(node: LoweringNode[Any]) -> _Affine | None:
    op, types, constants = node.op, node.operand_types, node.constants
    if isinstance(op, top.Scale):
        return _scale(node)
    if len(types) != 2 or sum(constant is None for constant in constants) != 1:
        return None
    if any(factor != 1.0 for factor in getattr(op, "coeff", None) or ()):
        return None
    place = next(index for index, constant in enumerate(constants) if constant is None)
    constant = constants[1 - place]
    assert constant is not None
    array, plain = constant.astype(np.float64), np.zeros(())
    match op:
        case top.Mul():
            return _Affine(place, array, plain)
        case top.Div():
            divides = place == (1 if op.is_reverse else 0) and array.all()
            return _Affine(place, 1.0 / array, plain) if divides else None
        case top.Sub():
            signs = (-1, 1) if op.is_reverse else (1, -1)
            return _Affine(place, np.full((), signs[place], np.float64), array * signs[1 - place])
        case _:
            return _Affine(place, np.ones(()), array)


def _scale(node: LoweringNode[top.Scale]) -> _Affine | None:
    factor, rank = node.constants[1], len(node.operand_types[0].dims)
    has_bias = len(node.operand_types) > 2 and node.operand_types[2] is not ABSENT
    summand = node.constants[2] if has_bias else np.zeros(())
    if factor is None or summand is None or rank < 2:
        return None
    column = (-1, *(1,) * (rank - 2))
    summand = summand.astype(np.float64)
    return _Affine(0, factor.astype(np.float64).reshape(column), summand.reshape(column) if has_bias else summand)


def over_channels(array: Array, dims: tuple[int, ...], whole: tuple[int, ...]) -> Array:
    """Expand a constant to one value per channel; channels are the dimensions from the first to the last extent above 1
    in `dims`.
    """
    own = np.broadcast_to(array, dims)
    own = own.reshape(*(1,) * (len(whole) - own.ndim), *own.shape)
    first, last = _extent(own.shape)
    return np.broadcast_to(own, (*own.shape[:first], *whole[first:last], *own.shape[last:])).reshape(-1)


def _extent(dims: tuple[int, ...]) -> tuple[int, int]:
    """The range of dimensions from the first to the last extent above 1."""
    places = [index for index, size in enumerate(dims) if size > 1]
    return (places[0], places[-1] + 1) if places else (0, 0)


def split_by_constant(own: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, int, int]:
    """Number of elements before, within and after the dimensions that constants of shape `own` span."""
    first, last = _extent((*(1,) * (len(dims) - len(own)), *own))
    return math.prod(dims[:first]), math.prod(dims[first:last]), math.prod(dims[last:])
