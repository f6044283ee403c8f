"""Normalisations behind products of integers, as scales of their filters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tpuc.api import NoneType, Operation, Pattern, Rewriter, Uniform, UniformPerAxis, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.casts import Dequantise, parameters

from tpuc_passes.canonicalisation.common import Names, new_weight, sole_producer
from tpuc_passes.stated.casts import is_output, is_weight


class NormIntoFilter(Pattern):
    """A BatchNorm behind a convolution whose filter is stored in integers: the filter's scales, and the bias.

    Integers of channels with a negative factor change their sign, so they have zero point 0 and a number to change to.
    """

    matches = (top.BatchNorm,)

    def __init__(self, names: Names) -> None:
        self._names = names

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        norm: top.BatchNorm = operation.op  # pyright: ignore[reportAssignmentType]  # `matches` says so
        product = sole_producer(operation)
        if product is None or not isinstance(product.op, top.Conv) or product.op.do_relu:
            return False
        if is_output(operation.operands[0]) or any(map(_is_computed, (*operation.operands[1:], *product.operands[2:]))):
            return False
        cast = product.operands[1].defining
        if cast is None or not isinstance(cast.op, Dequantise) or not is_weight(cast.operands[0]):
            return False
        factor, shift = _affine(norm, operation.operands[1:], rewriter)
        filters = cast.operands[0]
        scaled = _scaled(rewriter.module.weights[filters.name], filters, factor)
        if scaled is None:
            return False
        integers, element = scaled
        bias = _array(product.operands[2:], rewriter)
        shift = shift + factor * (0.0 if bias is None else bias)
        rewriter.at(product)
        stored = rewriter.weight(self._names.new(f"{filters.name}_scaled"), integers, element)
        name = self._names.new(f"{cast.name}_scaled")
        real = rewriter.build(Dequantise(), [stored], cast.result.type, name)
        summand = new_weight(rewriter, self._names, f"{operation.name}_bias", shift)
        op = replace(product.op, do_relu=norm.do_relu, relu_limit=norm.relu_limit)
        operands = [product.operands[0], real, summand]
        rewriter.replace(operation, rewriter.build(op, operands, operation.result.type, operation.name))
        return True


def _affine(norm: top.BatchNorm, constants: Sequence[Value], rewriter: Rewriter) -> tuple[Array, Array]:
    """Factor and summand of each channel."""
    mean, variance, *rest = (_array([value], rewriter) for value in constants)
    gamma, beta = (*rest, None, None)[:2]
    assert mean is not None
    assert variance is not None
    factor = 1 / np.sqrt(variance + norm.epsilon)
    factor = factor if gamma is None else factor * gamma
    return factor, -mean * factor + (0.0 if beta is None else beta)


def _array(values: Sequence[Value], rewriter: Rewriter) -> Array | None:
    present = [value for value in values if not isinstance(value.type, NoneType)]
    return rewriter.module.weights[present[0].name].reshape(-1).astype(np.float64) if present else None


def _scaled(integers: Array, value: Value, factor: Array) -> tuple[Array, UniformPerAxis] | None:
    """A filter times a factor of each output channel; None where that has no quantised type."""
    element = value.tensor.element
    assert isinstance(element, (Uniform, UniformPerAxis))
    if isinstance(element, UniformPerAxis) and element.axis:
        return None
    scale, zero_point = (np.broadcast_to(np.reshape(one, -1), factor.shape) for one in parameters(value.tensor))
    negative = factor < 0
    channels = integers[negative]
    if not factor.all() or (negative & (zero_point != 0)).any():
        return None
    if channels.size and (element.storage.is_unsigned or channels.min() == np.iinfo(integers.dtype).min):
        return None
    turned = np.where(negative.reshape(-1, *(1,) * (integers.ndim - 1)), -integers, integers).astype(integers.dtype)
    numbers = tuple(map(float, np.abs(factor) * scale)), tuple(map(int, zero_point))
    return turned, UniformPerAxis(element.storage, element.expressed, 0, *numbers, element.low, element.high)


def _is_computed(value: Value) -> bool:
    return not isinstance(value.type, NoneType) and not is_weight(value)
