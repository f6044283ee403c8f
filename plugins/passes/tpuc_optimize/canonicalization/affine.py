"""Scales and summands per channel, in whatever op they come, move into the convolution or product before them."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Location, Module, NoneType, Operation, Pattern, Rewriter, Value
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import (
    Array,
    Names,
    behind_moves,
    bypass,
    new_weight,
)
from tpuc_optimize.canonicalization.masks import hides_channels

AFFINE_OPS = (top.Add, top.AddConst, top.Mul, top.MulConst, top.Scale, top.Sub, top.SubConst)
"""What `AffineIntoProduct` matches: `_affine` has a rule for each."""


@dataclass(frozen=True)
class BatchNormToScale(Pattern):
    """Fixed statistics are a scale and a summand."""

    names: Names
    matches = (top.BatchNorm,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        arrays = [_float64(value, rewriter.module) for value in operation.operands[1:]]
        absent = [isinstance(value.type, NoneType) for value in operation.operands[1:]]
        if any(array is None and not gone for array, gone in zip(arrays, absent, strict=True)):
            return False  # one of them is computed
        flat = [None if array is None else array.reshape(-1) for array in arrays]
        mean, variance, gamma, beta = [*flat, None, None][:4]
        if mean is None or variance is None:
            return False
        factor = (1.0 if gamma is None else gamma) / np.sqrt(variance + op.epsilon)
        summand = (0.0 if beta is None else beta) - mean * factor
        shape = (1, -1, *(1,) * (operation.result.tensor.rank - 2))
        operands = [
            operation.operands[0],
            new_weight(rewriter, self.names, f"{operation.name}_scale", factor.reshape(shape)),
            new_weight(rewriter, self.names, f"{operation.name}_bias", summand.reshape(shape)),
        ]
        scale = top.Scale(do_relu=op.do_relu, relu_limit=op.relu_limit)
        rewriter.replace(operation, rewriter.build(scale, operands, operation.result.type, operation.name))
        return True


class NeutralNumber(Pattern):
    """A product with 1, and a sum with 0, are their operand."""

    matches = (top.MulConst, top.AddConst, top.SubConst)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        neutral = (top.MulConst(const_val=1.0), top.AddConst(const_val=0.0), top.SubConst(const_val=0.0))
        if operation.op not in neutral or operation.operands[0].type != operation.result.type:
            return False
        return bypass(operation, rewriter)


@dataclass(frozen=True)
class AffineIntoProduct(Pattern):
    """``(x @ w + b) * s + t`` is ``x @ (w * s) + (b * s + t)``, for convolutions and matrix products; also behind
    permutations, and reshapes that keep the channels a dimension of their own.
    """

    names: Names
    matches = AFFINE_OPS

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        module = rewriter.module
        position = computed_operand(operation)
        producer, moves = (None, []) if position is None else behind_moves(operation, position)
        if position is None or producer is None or not isinstance(producer.op, (top.Conv, top.MatMul)):
            return False
        before: Any = producer.op
        axis = output_axis(producer)
        matrix = _float64(producer.operands[1], module)
        value = operation.operands[position]
        if axis is None or matrix is None or before.do_relu or value.type != operation.result.type:
            return False
        for move in reversed(moves):
            axis = None if axis is None else _axis_behind(move, axis)
        if axis is None:
            return False
        affine = affine_of(operation, position, module, value.tensor.dims, axis)
        bias = bias_of(producer, module)
        if affine is None or bias is None:
            return False
        factor, summand = affine
        if hides_channels(summand, operation):
            return False  # a mask: as a bias of the product it would not be kept from the scores' scale
        rewriter.at(producer)
        after: Any = operation.op
        name = operation.name
        if (factor != 1).any():
            along = weight_axis(before, matrix.ndim)
            shape = [-1 if index == along else 1 for index in range(matrix.ndim)]
            scaled = matrix * factor.reshape(shape)
            rewriter.set_operand(producer, 1, new_weight(rewriter, self.names, f"{name}_filter", scaled))
        if len(producer.operands) > 2:
            total = new_weight(rewriter, self.names, f"{name}_bias", bias * factor + summand)
            rewriter.set_operand(producer, 2, total)
        location = operation.location
        rewriter.replace(operation, value)
        fused = dataclasses.replace(before, do_relu=after.do_relu, relu_limit=after.relu_limit)
        for move in moves:
            rewriter.change(move, move.op, location)
            location = Location((self.names.new(f"{name}_product"),))
        rewriter.change(producer, fused, location)
        return True


def _axis_behind(move: Operation, axis: int) -> int | None:
    """Which dimension of a moved value is that axis alone; None where it is split, or joined with others."""
    if isinstance(move.op, top.Permute):
        return move.op.order.index(axis)
    dims, reshaped = move.operands[0].tensor.dims, move.result.tensor.dims
    before = math.prod(dims[:axis])
    return next(
        (
            index
            for index, extent in enumerate(reshaped)
            if extent == dims[axis] and math.prod(reshaped[:index]) == before
        ),
        None,
    )


def computed_operand(operation: Operation) -> int | None:
    """Position of the only operand that is not a constant."""
    computed = [i for i, value in enumerate(operation.operands) if not value.is_constant]
    computed = [i for i in computed if not isinstance(operation.operands[i].type, NoneType)]
    return computed[0] if len(computed) == 1 else None


def affine_of(
    operation: Operation, position: int, module: Module, dims: tuple[int, ...], axis: int
) -> tuple[Array, Array] | None:
    """Factor and summand per index of `axis`, when that is all the operation does to operand `position`."""
    one, zero = np.ones(dims[axis]), np.zeros(dims[axis])
    match operation.op:
        case top.AddConst(const_val=number):
            return one, zero + number
        case top.MulConst(const_val=number):
            return one * number, zero
        case top.SubConst(const_val=number, is_reverse=reverse):
            return (-one, zero + number) if reverse else (one, zero - number)
        case top.Scale() if axis == 1:
            factor, summand = ([_float64(value, module) for value in operation.operands[1:]] + [None])[:2]
            return one if factor is None else factor.reshape(-1), zero if summand is None else summand.reshape(-1)
        case top.Add(coeff=None) | top.Mul() | top.Sub(coeff=None, is_reverse=False) if len(operation.operands) == 2:
            other = _per_channel(_float64(operation.operands[1 - position], module), dims, axis)
        case top.Div(is_reverse=False) if position == 0:
            divisor = _per_channel(_float64(operation.operands[1], module), dims, axis)
            return None if divisor is None or not divisor.all() else (1 / divisor, zero)
        case _:
            return None
    if other is None:
        return None
    if isinstance(operation.op, top.Mul):
        return other, zero
    if isinstance(operation.op, top.Add):
        return one, other
    return (one, -other) if position == 0 else (-one, other)


def _per_channel(array: Array | None, dims: tuple[int, ...], axis: int) -> Array | None:
    """A constant that broadcasts along everything but `axis`, as one number per index; None when it does not."""
    if array is None or array.ndim > len(dims):
        return None
    shape = (1,) * (len(dims) - array.ndim) + array.shape
    if any(extent != 1 for index, extent in enumerate(shape) if index != axis):
        return None
    return np.broadcast_to(array.reshape(-1), (dims[axis],))


def output_axis(producer: Operation) -> int | None:
    """The result's axis along which filters or columns lie."""
    op: Any = producer.op
    rank = producer.result.tensor.rank
    if isinstance(op, top.Conv):
        return 1
    plain = not op.output_transpose and not op.hdim_is_batch and producer.operands[1].tensor.rank == 2
    return rank - 1 if plain and rank >= 2 else None


def weight_axis(op: Any, rank: int) -> int:
    """The same axis in the filter or matrix."""
    return 0 if isinstance(op, top.Conv) or op.right_transpose else rank - 1


def bias_of(producer: Operation, module: Module) -> Array | None:
    """The bias by channel, zero when it is absent, None when it is computed or has another form."""
    channels = producer.result.tensor.dims[1 if isinstance(producer.op, top.Conv) else -1]
    if len(producer.operands) < 3:
        return None
    value = producer.operands[2]
    if isinstance(value.type, NoneType):
        return np.zeros(channels)
    array = _float64(value, module)
    return None if array is None or array.size != channels else array.reshape(-1)


def _float64(value: Value, module: Module) -> Array | None:
    array = module.constant(value)
    return None if array is None else array.astype(np.float64)
