"""Recognize normalizations written as means, differences and roots, and softmax written as exponentials."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from tpuc.api import NoneType, Operation, Pattern, Rewriter, Value
from tpuc_ops import top

from tpuc_optimize.canonicalization.common import Names, new_weight, sole_producer, without_reshapes
from tpuc_optimize.canonicalization.recognition import is_near

SOFTMAX_FLOOR = -1e30
"""Maxima with a constant below this are maxima: exporters use it to avoid minus infinity."""


@dataclass(frozen=True)
class Reduced:
    """`operand` reduced over `axes`, which count from 0 and keep extent 1 in the examined value."""

    operand: Value
    axes: tuple[int, ...]


class SumToMean(Pattern):
    """A sum divided by the number of elements becomes a mean. The sum need not fit narrow floats."""

    matches = (top.MulConst,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        source = sole_producer(operation)
        op: Any = operation.op
        if source is None or not isinstance(source.op, top.Reduce) or source.op.mode != "ReduceSum" or op.do_relu:
            return False
        if not is_near(op.const_val * source.operands[0].tensor.size, source.result.tensor.size):
            return False
        mean = dataclasses.replace(source.op, mode="ReduceMean")
        made = rewriter.build(mean, [source.operands[0]], operation.result.type, operation.name)
        rewriter.replace(operation, made)
        return True


@dataclass(frozen=True)
class MeanOfSquares(Pattern):
    """``mean(x ** 2) - mean(x) ** 2`` becomes the mean square of the difference from the mean.

    The difference of two large numbers keeps few of the significant digits of narrow floats, and none of bf16's eight
    where the mean is 16 times the deviation.
    """

    names: Names
    matches = (top.Sub,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        if operation.op != top.Sub():
            return False
        left, right = (without_reshapes(value) for value in operation.operands)
        squares, mean = _reduction(left, "ReduceMean"), _square_root(right)
        of_x = None if mean is None else _reduction(without_reshapes(mean), "ReduceMean")
        x = None if squares is None else _square_root(squares.operand)
        if squares is None or of_x is None or x is None or of_x != Reduced(x, squares.axes):
            return False
        name, axes, type = operation.name, squares.axes, operation.result.type
        kept = tuple(1 if axis in axes else size for axis, size in enumerate(x.tensor.dims))
        if math.prod(kept) != operation.result.tensor.size:
            return False
        reduce = top.Reduce(axes=axes, mode="ReduceMean")
        center = rewriter.build(reduce, [x], x.tensor.with_shape(kept), self.names.new(f"{name}_mean"))
        away = rewriter.build(top.Sub(), [x, center], x.type, self.names.new(f"{name}_centered"))
        square = rewriter.build(top.Mul(), [away, away], x.type, self.names.new(f"{name}_squares"))
        if type == center.type:
            rewriter.replace(operation, rewriter.build(reduce, [square], type, name))
        else:
            made = rewriter.build(reduce, [square], center.type, self.names.new(f"{name}_kept"))
            shape = top.Reshape(shape=operation.result.tensor.dims)
            rewriter.replace(operation, rewriter.build(shape, [made], type, name))
        return True


@dataclass(frozen=True)
class ToLayerNorm(Pattern):
    """``(x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps)``, optionally times a weight; other axes than the last
    ones are permuted there and back.
    """

    names: Names
    matches = (top.Div, top.Mul)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        found = _divided_by_root(operation)
        if found is None:
            return False
        centered, variance, eps, weight = found
        difference = centered.defining
        squares = _reduction(_core(variance), "ReduceMean")
        if difference is None or difference.op != top.Sub() or squares is None:
            return False
        x, mean = difference.operands
        of_x, root = _reduction(without_reshapes(mean), "ReduceMean"), _square_root(squares.operand)
        if of_x is None or of_x != Reduced(x, squares.axes) or root is None or not _is_same_difference(root, x, of_x):
            return False
        if not _keeps(mean, of_x) or not _keeps(variance, of_x) or x.type != operation.result.type:
            return False
        axes, rank, name = of_x.axes, x.tensor.rank, operation.name
        scale = _along(weight, axes, x, rewriter, self.names)
        if scale is None:
            return False
        first = rank - len(axes)
        op = top.LayerNorm(axis=first, normalized_shape=tuple(x.tensor.dims[axis] for axis in axes), eps=eps)
        order = (*(axis for axis in range(rank) if axis not in axes), *axes)
        if order == tuple(range(rank)):
            made = rewriter.build(op, [x, scale, rewriter.none()], x.type, name)
        else:
            turned = x.tensor.with_shape(tuple(x.tensor.dims[axis] for axis in order))
            y = rewriter.build(top.Permute(order=order), [x], turned, self.names.new(f"{name}_turned"))
            y = rewriter.build(op, [y, scale, rewriter.none()], turned, self.names.new(f"{name}_normal"))
            back = tuple(order.index(axis) for axis in range(rank))
            made = rewriter.build(top.Permute(order=back), [y], x.type, name)
        rewriter.replace(operation, made)
        return True


@dataclass(frozen=True)
class ToRMSNorm(Pattern):
    """``x / sqrt(mean(x ** 2) + eps)`` over the last dimension, optionally times a weight."""

    names: Names
    matches = (top.Div, top.Mul)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        found = _divided_by_root(operation)
        if found is None:
            return False
        x, mean, eps, weight = found
        squares = _reduction(_core(mean), "ReduceMean")
        if squares is None or _square_root(squares.operand) is not x or not _keeps(mean, squares):
            return False
        if squares.axes != (x.tensor.rank - 1,) or x.type != operation.result.type:
            return False
        scale = _along(weight, squares.axes, x, rewriter, self.names)
        if scale is None:
            return False
        made = rewriter.build(top.RMSNorm(eps=eps), [x, scale], operation.result.type, operation.name)
        rewriter.replace(operation, made)
        return True


@dataclass(frozen=True)
class AffineIntoNorm(Pattern):
    """A constant factor, then a constant summand, shared by all places after a normalization become its own."""

    names: Names
    matches = (top.Mul, top.Add)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        if operation.op not in (top.Mul(), top.Add()) or len(operation.operands) != 2:
            return False
        for value, constant in (operation.operands, operation.operands[::-1]):
            if not constant.is_constant or value.type != operation.result.type:
                continue
            norm, axes = _normalized(value)
            index = 1 if isinstance(operation.op, top.Mul) else 2
            if norm is None or index >= len(norm.operands) or any(not _is_free(norm, i) for i in range(index, 3)):
                continue
            own = _along(constant, axes, value, rewriter, self.names)
            if own is None:
                continue
            operands = [*norm.operands]
            operands[index] = own
            behind = value.defining
            if behind is norm or behind is None:
                made = rewriter.build(norm.op, operands, norm.result.type, operation.name)
            else:
                inner = rewriter.build(norm.op, operands, norm.result.type, self.names.new(f"{operation.name}_normal"))
                made = rewriter.build(behind.op, [inner], operation.result.type, operation.name)
            rewriter.replace(operation, made)
            return True
        return False


class ExponentialsToSoftmax(Pattern):
    """Exponentials divided by their sum; subtracting the maximum first makes no difference."""

    matches = (top.Div,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        if operation.op != top.Div():
            return False
        powers, whole = operation.operands
        total = _reduction(without_reshapes(whole), "ReduceSum")
        if total is None or total.operand is not powers or len(total.axes) != 1 or not _keeps(whole, total):
            return False
        if powers.defining is None or not isinstance(powers.defining.op, top.Exp):
            return False
        x = powers.defining.operands[0]
        source = x.defining
        is_less = source is not None and source.op == top.Sub()
        if source is not None and is_less and _maximum(source.operands[1]) == Reduced(source.operands[0], total.axes):
            x = source.operands[0]
        made = rewriter.build(top.Softmax(axis=total.axes[0]), [x], operation.result.type, operation.name)
        rewriter.replace(operation, made)
        return True


def _divided_by_root(operation: Operation) -> tuple[Value, Value, float, Value | None] | None:
    """The parts of ``a / sqrt(b + eps)``, optionally times a weight: a, b, eps, weight."""
    if operation.op == top.Div():
        a, root = operation.operands
        found = _root(root)
        return None if found is None else (a, *found, None)
    if operation.op != top.Mul() or len(operation.operands) != 2:
        return None
    for a, factor in (operation.operands, operation.operands[::-1]):
        found, weight = _inverse_root(factor), None
        if found is None and factor.defining is not None and factor.defining.op == top.Mul():
            for inverse, constant in (factor.defining.operands, factor.defining.operands[::-1]):
                if constant.is_constant:
                    found, weight = _inverse_root(inverse), constant
        if found is not None:
            return (a, *found, weight)
    return None


def _inverse_root(value: Value) -> tuple[Value, float] | None:
    producer = value.defining
    if producer is None:
        return None
    if isinstance(producer.op, top.Rsqrt):
        return _offset(producer.operands[0])
    if isinstance(producer.op, top.Pow) and producer.op.exponent == -0.5:
        return _offset(producer.operands[0])
    return _root(producer.operands[0]) if producer.op == top.Reciprocal() else None


def _root(value: Value) -> tuple[Value, float] | None:
    producer = value.defining
    if producer is None or not (isinstance(producer.op, top.Sqrt) or producer.op == top.Pow(exponent=0.5)):
        return None
    return _offset(producer.operands[0])


def _offset(value: Value) -> tuple[Value, float] | None:
    """The operand to which eps is added, and eps."""
    producer = value.defining
    if producer is None or not isinstance(producer.op, top.AddConst) or producer.op.do_relu:
        return None
    return producer.operands[0], producer.op.const_val


def _core(value: Value) -> Value:
    """The value before reshapes by extents of 1, and before a maximum with 0, which a mean of squares never falls
    below.
    """
    value = without_reshapes(value)
    while value.defining is not None and value.defining.op == top.MaxConst(const_val=0.0):
        value = without_reshapes(value.defining.operands[0])
    return value


def _reduction(value: Value, mode: str) -> Reduced | None:
    producer = value.defining
    if producer is None or not isinstance(producer.op, top.Reduce) or producer.op.mode != mode:
        return None
    rank = producer.operands[0].tensor.rank
    return Reduced(producer.operands[0], tuple(sorted(axis % rank for axis in producer.op.axes)))


def _keeps(value: Value, reduced: Reduced) -> bool:
    """True if it keeps the reduced dimensions with extent 1, so that it broadcasts along them."""
    dims = tuple(1 if axis in reduced.axes else size for axis, size in enumerate(reduced.operand.tensor.dims))
    return value.tensor.dims == dims


def _square_root(value: Value) -> Value | None:
    """The operand of which a value is the square."""
    producer = value.defining
    if producer is None:
        return None
    if isinstance(producer.op, top.Pow) and producer.op.exponent == 2:
        return producer.operands[0]
    is_square = (
        producer.op == top.Mul() and len(producer.operands) == 2 and producer.operands[0] is producer.operands[1]
    )
    return producer.operands[0] if is_square else None


def _is_same_difference(value: Value, x: Value, mean: Reduced) -> bool:
    """True for ``x - mean``, wherever it was computed."""
    producer = value.defining
    if producer is None or producer.op != top.Sub() or producer.operands[0] is not x:
        return False
    other = producer.operands[1]
    return _reduction(without_reshapes(other), "ReduceMean") == mean and _keeps(other, mean)


def _maximum(value: Value) -> Reduced | None:
    """The operand of which a value is the maximum."""
    inner = without_reshapes(value)
    producer = inner.defining
    if producer is not None and isinstance(producer.op, top.MaxConst) and producer.op.const_val <= SOFTMAX_FLOOR:
        inner = without_reshapes(producer.operands[0])
    return _reduction(inner, "ReduceMax")


def _along(constant: Value | None, axes: tuple[int, ...], of: Value, rewriter: Rewriter, names: Names) -> Value | None:
    """A constant that varies only along `axes` of a value, with their extents; None for others. Absent operands stay
    absent.
    """
    if constant is None:
        return rewriter.none()
    array, rank = rewriter.module.constant(constant), of.tensor.rank
    if array is None or array.ndim > rank:
        return None
    dims = (1,) * (rank - array.ndim) + array.shape
    shape = tuple(of.tensor.dims[axis] for axis in axes)
    if tuple(dims[axis] for axis in axes) != shape or math.prod(shape) != array.size:
        return None
    return (
        constant if shape == array.shape else new_weight(rewriter, names, f"{constant.name}_flat", array.reshape(shape))
    )


def _normalized(value: Value) -> tuple[Operation | None, tuple[int, ...]]:
    """The normalization that computes a value, possibly before a permutation, and the value's axes that it covers."""
    behind = value.defining
    if behind is None or len(value.uses) != 1:
        return None, ()
    norm, order = behind, tuple(range(value.tensor.rank))
    if isinstance(behind.op, top.Permute):
        source, order = behind.operands[0], behind.op.order
        if source.defining is None or len(source.uses) != 1:
            return None, ()
        norm = source.defining
    if not isinstance(norm.op, (top.LayerNorm, top.RMSNorm)):
        return None, ()
    rank = value.tensor.rank
    first = norm.op.axis % rank if isinstance(norm.op, top.LayerNorm) else rank - 1
    return norm, tuple(order.index(axis) for axis in range(first, rank))


def _is_free(norm: Operation, position: int) -> bool:
    return position >= len(norm.operands) or isinstance(norm.operands[position].type, NoneType)
