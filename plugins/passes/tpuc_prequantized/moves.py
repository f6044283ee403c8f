"""Exchange casts and ops that only move elements, so that integers are moved and casts meet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tpuc.api import (
    Location,
    Op,
    Operation,
    Pattern,
    Rewriter,
    ShapeOnly,
    TensorType,
    Uniform,
    UniformPerAxis,
)
from tpuc_ops import top
from tpuc_ops.quant.casts import Dequantize, Quantize, parameters
from tpuc_ops.traits import CommutesWithRounding, PicksElements
from tpuc_optimize.canonicalization.common import Names, is_output

from tpuc_prequantized.casts import is_weight

_ROUNDING = 1e-3
"""In steps: rounding error of a 16-bit quotient in float32."""


class WeightsMoved(Pattern):
    """Reshaping or permuting a quantized constant gives a quantized constant."""

    matches = (top.Flatten, top.Permute, top.Reshape, top.Squeeze, top.Unsqueeze)

    def __init__(self, names: Names) -> None:
        self._names = names

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        cast = operation.operands[0].defining
        if cast is None or not isinstance(cast.op, Dequantize) or not is_weight(cast.operands[0]):
            return False
        weight = cast.operands[0]
        element, dims = weight.tensor.element, operation.result.tensor.dims
        if isinstance(element, UniformPerAxis):
            axis = _moved_axis(operation.op, weight.tensor.dims, dims, element.axis)
            if axis is None:
                return False
            element = replace(element, axis=axis)
        (array,) = operation.op.evaluate(operation.node(), [rewriter.module.weights[weight.name]])
        moved = rewriter.weight(self._names.new(f"{operation.name}_stored"), np.ascontiguousarray(array), element)
        rewriter.replace(operation, rewriter.build(Dequantize(), [moved], operation.result.type, operation.name))
        return True


class RealBeforeMoves(Pattern):
    """Dequantize before moves and maxima instead of after them."""

    matches = (top.DequantizeLinear,)

    def __init__(self, names: Names) -> None:
        self._names = names

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: top.DequantizeLinear = operation.op  # pyright: ignore[reportAssignmentType]  # `matches` says so
        move = operation.operands[0].defining
        if move is None or len(op.x_scale) > 1 or not _keeps(move.op):
            return False
        readers = [list(result.users) for result in move.results]
        if any(user.op != op for users in readers for user in users):
            return False
        source = move.operands[0]
        rewriter.at(move)
        real = rewriter.build(op, [source], source.type, self._names.new(f"{source.name}_real"))
        names = [users[0].name if users else self._names.new(f"{move.name}_unread") for users in readers]
        moved = Operation(
            _in_floats(move.op, op),
            [real, *move.operands[1:]],
            [result.type for result in move.results],
            Location(tuple(names)),
        )
        rewriter.insert(moved)
        for users, result in zip(readers, moved.results, strict=True):
            for user in users:
                rewriter.replace(user, result)
        return True


class MovesBeforeCasts(Pattern):
    """Moves of dequantized floats become moves of the integers."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        if not operation.operands or not _keeps(operation.op):
            return False
        cast = operation.operands[0].defining
        if cast is None or not isinstance(cast.op, Dequantize) or is_weight(cast.operands[0]):
            return False
        stored = cast.operands[0]
        element = stored.tensor.element
        if not isinstance(element, Uniform) or not _has_integer(operation.op, element):
            return False
        types = [result.tensor.with_element(element) for result in operation.results]
        names = [self._names.new(f"{result.name}_stored") for result in operation.results]
        moved = Operation(operation.op, [stored, *operation.operands[1:]], types, Location(tuple(names)))
        rewriter.insert(moved)
        casts = [
            rewriter.build(Dequantize(), [value], old.type, old.name)
            for value, old in zip(moved.results, operation.results, strict=True)
        ]
        rewriter.replace(operation, casts)
        return True


class CastsBeforeMoves(Pattern):
    """A cast to integers moves before ops that only move elements, or keep their order, towards the op that
    computes them.
    """

    matches = (Quantize,)

    def __init__(self, names: Names) -> None:
        self._names = names

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        value = operation.operands[0]
        move = value.defining
        if move is None or len(value.uses) > 1 or not _passes(move.op) or len(move.results) > 1:
            return False
        source = move.operands[0]
        if is_weight(source) or not isinstance(source.type, TensorType) or source.tensor.is_quantized:
            return False
        element = operation.result.tensor.element
        rewriter.at(move)
        name = self._names.new(f"{source.name}_stored")
        stored = rewriter.build(operation.op, [source], source.tensor.with_element(element), name)
        type_ = operation.result.type
        moved = rewriter.build(move.op, [stored, *move.operands[1:]], type_, operation.name)
        rewriter.replace(operation, moved)
        return True


class WeightsAsFloats(Pattern):
    """A quantized constant that a float op reads becomes the real numbers of its integers."""

    matches = (Dequantize,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        weight = operation.operands[0]
        if not is_weight(weight) or is_output(operation.result):
            return False
        scale, zero_point = parameters(weight.tensor)
        array = rewriter.module.weights[weight.name].astype(np.float32)
        real = (array - zero_point.astype(np.float32)) * scale.astype(np.float32)
        name = operation.name
        if name in rewriter.module.weights:
            name = f"{name}_f32"
        rewriter.replace(operation, rewriter.weight(name, np.asarray(real, np.float32, order="C"), "f32"))
        return True


def _passes(op: Op) -> bool:
    relu: Any = getattr(op, "do_relu", False)
    return isinstance(op, CommutesWithRounding) and not relu


def _keeps(op: Op) -> bool:
    """True if its results are elements of the first operand, or a constant padding."""
    return isinstance(op, top.Pad) or (isinstance(op, PicksElements) and _passes(op))


def _in_floats(op: Op, read: top.DequantizeLinear) -> Op:
    """A move of integers as a move of their real values."""
    if not isinstance(op, top.Pad):
        return op
    return top.Pad(paddings=op.paddings, mode=op.mode, val=(op.val - read.x_zero_point[0]) * read.x_scale[0])


def _has_integer(op: Op, element: Uniform) -> bool:
    """True if the padding value of a move is representable by these integers."""
    if not isinstance(op, top.Pad) or op.mode != "constant":
        return True
    number = op.val / element.scale + element.zero_point
    low, high = element.bounds
    return low <= number <= high and abs(number - round(number)) < _ROUNDING


def _moved_axis(op: Op, before: Sequence[int], after: Sequence[int], axis: int) -> int | None:
    """The axis of the scales after a move; None where it is merged with others."""
    if isinstance(op, top.Permute):
        return op.order.index(axis)
    assert isinstance(op, ShapeOnly)
    for place, extent in enumerate(after):
        if extent == before[axis] and math.prod(after[:place]) == math.prod(before[:axis]):
            return place
    return None
