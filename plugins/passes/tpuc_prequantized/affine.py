"""Fold scales and offsets per channel after integer products into filter scales and biases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tpuc.api import ElementType, NoneType, Operation, Pattern, Rewriter, Uniform, UniformPerAxis, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.quant.casts import Dequantize, parameters
from tpuc_optimize.canonicalization.affine import (
    AFFINE_OPS,
    affine_of,
    bias_of,
    computed_operand,
    output_axis,
    weight_axis,
)
from tpuc_optimize.canonicalization.common import Names, is_output, new_weight, sole_producer

from tpuc_prequantized.casts import is_weight


class AffineIntoFilter(Pattern):
    """Fold a scale and shift of the channels after a product with an integer filter into the filter's scales and the
    bias.

    The integers of channels with a negative factor change sign, so these need zero point 0 and must not hold the lowest
    integer.
    """

    matches = (top.BatchNorm, top.Div, *AFFINE_OPS)

    def __init__(self, names: Names) -> None:
        self._names = names

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        position = computed_operand(operation)
        product = None if position is None else sole_producer(operation, position)
        if position is None or product is None or not isinstance(product.op, (top.Conv, top.MatMul)):
            return False
        if product.op.do_relu or product.result.type != operation.result.type or is_output(product.result):
            return False
        cast = product.operands[1].defining
        axis, bias = output_axis(product), bias_of(product, rewriter.module)
        if cast is None or not isinstance(cast.op, Dequantize) or not is_weight(cast.operands[0]):
            return False
        if axis is None or bias is None:
            return False
        affine = _affine(operation, position, rewriter, axis)
        if affine is None:
            return False
        factor, summand = affine
        along = weight_axis(product.op, product.operands[1].tensor.rank)
        scaled = _scaled(rewriter.module.weights[cast.operands[0].name], cast.operands[0], factor, along)
        if scaled is None:
            return False
        rewriter.at(product)
        stored = rewriter.weight(self._names.new(f"{cast.operands[0].name}_scaled"), *scaled)
        filters = rewriter.build(Dequantize(), [stored], cast.result.type, self._names.new(f"{cast.name}_scaled"))
        total = new_weight(rewriter, self._names, f"{operation.name}_bias", bias * factor + summand)
        after: top.Add = operation.op  # pyright: ignore[reportAssignmentType]  # or another of `matches`, with a relu
        op = replace(product.op, do_relu=after.do_relu, relu_limit=after.relu_limit)
        operands = [product.operands[0], filters, total]
        rewriter.replace(operation, rewriter.build(op, operands, operation.result.type, operation.name))
        return True


def _affine(operation: Operation, position: int, rewriter: Rewriter, axis: int) -> tuple[Array, Array] | None:
    """Factor and summand of each channel; None where the operation does anything else."""
    op = operation.op
    if isinstance(op, top.BatchNorm):
        return _of_norm(op, operation.operands[1:], rewriter) if axis == 1 else None
    return affine_of(operation, position, rewriter.module, operation.result.tensor.dims, axis)


def _of_norm(op: top.BatchNorm, constants: Sequence[Value], rewriter: Rewriter) -> tuple[Array, Array]:
    weights = rewriter.module.weights
    present = [None if isinstance(value.type, NoneType) else weights[value.name].reshape(-1) for value in constants]
    mean, variance, *rest = (None if array is None else array.astype(np.float64) for array in present)
    gamma, beta = (*rest, None, None)[:2]
    assert mean is not None
    assert variance is not None
    factor = 1 / np.sqrt(variance + op.epsilon)
    factor = factor if gamma is None else factor * gamma
    return factor, -mean * factor + (0.0 if beta is None else beta)


def _scaled(integers: Array, value: Value, factor: Array, along: int) -> tuple[Array, ElementType] | None:
    """A filter times a factor per channel of its axis `along`; None where the result has no quantized type."""
    element = value.tensor.element
    assert isinstance(element, (Uniform, UniformPerAxis))
    if isinstance(element, Uniform) and factor[0] > 0 and (factor == factor[0]).all():
        return integers, replace(element, scale=element.scale * float(factor[0]))
    if isinstance(element, UniformPerAxis) and element.axis != along:
        return None
    scale, zero_point = (np.broadcast_to(np.reshape(one, -1), factor.shape) for one in parameters(value.tensor))
    negative = factor < 0
    if not factor.all() or (negative & (zero_point != 0)).any():
        return None
    channels = integers.take(np.flatnonzero(negative), along)
    largest = np.iinfo(integers.dtype).max if element.high is None else element.high
    if channels.size and (element.storage.is_unsigned or -int(channels.min()) > largest):
        return None
    signs = np.where(negative, -1, 1).reshape([-1 if index == along else 1 for index in range(integers.ndim)])
    numbers = tuple(map(float, np.abs(factor) * scale)), tuple(map(int, zero_point))
    bounds = element.low, element.high
    scaled = UniformPerAxis(element.storage, element.expressed, along, *numbers, *bounds)
    return (integers * signs).astype(integers.dtype), scaled
