"""Simplify consecutive products: remove unread channels, and merge two products where that costs less."""

from __future__ import annotations

import dataclasses
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Module, NoneType, Operation, Pattern, Rewriter
from tpuc_ops import top
from tpuc_ops.products import matmul
from tpuc_ops.shapes import slice_ranges

from tpuc_optimize.canonicalization.affine import bias_of, output_axis
from tpuc_optimize.canonicalization.common import Array, Names, bypass, new_weight, sole_producer


@dataclass(frozen=True)
class UnreadChannels(Pattern):
    """A product drops the channels that its only reader, another product, multiplies by zeros."""

    names: Names
    matches = (top.Conv, top.MatMul)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        producer = _product_before(operation)
        if producer is None:
            return False
        before, own = (_matrix(one, rewriter.module) for one in (producer, operation))
        if before is None or own is None:
            return False
        read = own.any(axis=(0, *range(2, own.ndim)))
        bias = bias_of(producer, rewriter.module)
        if read.all() or not read.any() or bias is None:
            return False
        rewriter.at(producer)
        name = self.names.new(f"{producer.name}_read")
        operands = [producer.operands[0], self._weight(rewriter, producer, f"{name}_filter", before[read])]
        if len(producer.operands) > 2:
            absent = isinstance(producer.operands[2].type, NoneType)
            operands.append(
                producer.operands[2] if absent else new_weight(rewriter, self.names, f"{name}_bias", bias[read])
            )
        dims, axis = list(producer.result.tensor.dims), output_axis(producer)
        assert axis is not None
        dims[axis] = int(read.sum())
        narrow = rewriter.build(producer.op, operands, producer.result.tensor.with_shape(tuple(dims)), name)
        rewriter.at(operation)
        filters = self._weight(rewriter, operation, f"{operation.name}_filter", own[:, read])
        rewriter.set_operand(operation, 1, filters)
        rewriter.set_operand(operation, 0, narrow)
        return True

    def _weight(self, rewriter: Rewriter, product: Operation, name: str, matrix: Array) -> Any:
        return new_weight(rewriter, self.names, name, _as_stored(matrix, product))


@dataclass(frozen=True)
class ProductIntoProduct(Pattern):
    """Merge a product and a following one over channels alone, with nothing between, where that multiplies no more
    numbers than both. Two layers from training become one, with one rounding less.
    """

    names: Names
    matches = (top.Conv, top.MatMul)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        module, producer = rewriter.module, _product_before(operation)
        op: Any = operation.op
        if producer is None or not _is_of_channels(operation):
            return False
        before: Any = producer.op
        if before.do_relu:
            return False
        first, second = _matrix(producer, module), _matrix(operation, module)
        first_bias, second_bias = bias_of(producer, module), bias_of(operation, module)
        if first is None or second is None or first_bias is None or second_bias is None:
            return False
        if len(second) * math.prod(first.shape[1:]) > first.size + second.size:
            return False
        flat = second.reshape(second.shape[:2])
        summand = matmul(flat, first_bias) + second_bias
        rewriter.at(operation)
        name = operation.name
        matrix = _as_stored(matmul(flat, first.reshape(len(first), -1)).reshape(len(flat), *first.shape[1:]), producer)
        operands = [producer.operands[0], new_weight(rewriter, self.names, f"{name}_filter", matrix)]
        operands.append(new_weight(rewriter, self.names, f"{name}_bias", summand))
        both = dataclasses.replace(before, do_relu=op.do_relu, relu_limit=op.relu_limit)
        rewriter.replace(operation, rewriter.build(both, operands, operation.result.type, name))
        return True


@dataclass(frozen=True)
class NeutralProduct(Pattern):
    """A product with the identity becomes its operand."""

    matches = (top.Conv, top.MatMul)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: Any = operation.op
        if operation.operands[0].type != operation.result.type or not _is_of_channels(operation):
            return False
        if len(set(operation.operands[1].tensor.dims[:2])) > 1:
            return False
        matrix, bias = _matrix(operation, rewriter.module), bias_of(operation, rewriter.module)
        if matrix is None or bias is None or bias.any():
            return False
        flat = matrix.reshape(matrix.shape[:2])
        if not np.array_equal(flat, np.eye(len(flat))):
            return False
        if not op.do_relu:
            return bypass(operation, rewriter)
        relu = top.Relu(relu_limit=op.relu_limit)
        rewriter.at(operation)
        rewriter.replace(operation, rewriter.build(relu, operation.operands[:1], operation.result.type, operation.name))
        return True


@dataclass(frozen=True)
class PartsOfProduct(Pattern):
    """A product whose columns are only read in parts, as queries, keys and values are, becomes one product per part:
    for chips where permuting and cutting the whole takes longer than reading the operand of the product again.
    """

    names: Names
    matches = (top.MatMul,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        module, op = rewriter.module, operation.op
        matrix, bias = _matrix(operation, module), bias_of(operation, module)
        found = _parts_of(operation)
        if matrix is None or bias is None or found is None or not isinstance(op, top.MatMul):
            return False
        if has_learned_scale(operation):
            return False
        shape, order, slices = found
        axis = operation.result.tensor.rank - 1
        width = len(matrix) // shape[axis]
        for part, (first, end) in slices.items():
            rewriter.at(part)
            name, columns = self.names.new(f"{part.name}_product"), slice(first * width, end * width)
            operands = [
                operation.operands[0],
                new_weight(rewriter, self.names, f"{name}_filter", _as_stored(matrix[columns], operation)),
                new_weight(rewriter, self.names, f"{name}_bias", bias[columns]),
            ]
            type_ = part.result.tensor
            lead = operation.result.tensor.dims[:-1]
            product = rewriter.build(op, operands, type_.with_shape((*lead, (end - first) * width)), name)
            dims = (*shape[:axis], end - first, *shape[axis + 1 :])
            reshape, apart = top.Reshape(shape=dims), type_.with_shape(dims)
            if order is None:
                rewriter.replace(part, rewriter.build(reshape, [product], part.result.type, part.name))
                continue
            value = rewriter.build(reshape, [product], apart, self.names.new(f"{part.name}_apart"))
            rewriter.replace(part, rewriter.build(top.Permute(order=order), [value], part.result.type, part.name))
        return True


def has_learned_scale(product: Operation) -> bool:
    """True if training chose the scale of its filters."""
    weight = product.operands[1].defining
    return weight is not None and isinstance(weight.op, top.Weight) and weight.op.scale is not None


_Parts = tuple[tuple[int, ...], tuple[int, ...] | None, dict[Operation, tuple[int, int]]]


def _parts_of(product: Operation) -> _Parts | None:
    """The shape and the order of a product's result before it is cut, and the cuts with the range of each; None unless
    they take every place of the first dimension of its columns once.
    """
    reshape = _sole_reader(product)
    if reshape is None or not isinstance(reshape.op, top.Reshape):
        return None
    shape, axis = reshape.result.tensor.dims, product.result.tensor.rank - 1
    if shape[:axis] != product.result.tensor.dims[:-1] or len(shape) <= axis + 1:
        return None
    reader = _sole_reader(reshape)
    permute = reader if reader is not None and isinstance(reader.op, top.Permute) else None
    order = tuple(permute.op.order) if permute is not None and isinstance(permute.op, top.Permute) else None
    whole = (reshape if permute is None else permute).result
    place = axis if order is None else order.index(axis)
    slices: dict[Operation, tuple[int, int]] = {}
    for user, _ in whole.uses:
        part = _range_of(user, place)
        if part is None:
            return None
        slices[user] = part
    taken = sorted(slices.values())
    gapless = all(one[1] == other[0] for one, other in itertools.pairwise(taken))
    if len(taken) < 2 or not gapless or (taken[0][0], taken[-1][1]) != (0, shape[axis]):
        return None
    return shape, order, slices


def _sole_reader(operation: Operation) -> Operation | None:
    uses = [*operation.result.uses]
    return uses[0][0] if len(uses) == 1 else None


def _range_of(operation: Operation, axis: int) -> tuple[int, int] | None:
    """The range that a Slice takes of one dimension, with all of the others; None for anything else."""
    op = operation.op
    if not isinstance(op, top.Slice) or any(not isinstance(value.type, NoneType) for value in operation.operands[1:]):
        return None
    before, after = operation.operands[0].tensor.dims, operation.result.tensor.dims
    ranges = slice_ranges(before, op.offset, op.steps, after)
    if any(one.step not in (1, None) for one in ranges) or len(before) != len(after):
        return None
    if any(kept != extent for index, (kept, extent) in enumerate(zip(after, before, strict=True)) if index != axis):
        return None
    return ranges[axis].start, ranges[axis].stop


def _product_before(operation: Operation) -> Operation | None:
    """The product of the same kind whose result only this operation reads."""
    producer = sole_producer(operation)
    return producer if producer is not None and type(producer.op) is type(operation.op) else None


def _matrix(product: Operation, module: Module) -> Array | None:
    """Constant filters of one group as `[outputs, inputs, ...]` in float64; None for other products."""
    op: Any = product.op
    x, filters = product.operands[:2]
    array = module.constant(filters)
    if array is None or x is filters or len(product.operands) > 3:
        return None
    if isinstance(op, top.Conv):
        return array.astype(np.float64) if op.group == 1 and not op.inserts else None
    stored = op.left_transpose or op.q_group_size or op.dq_type != "NONE" or output_axis(product) is None
    if stored or x.tensor.rank < 2:
        return None
    return (array if op.right_transpose else array.T).astype(np.float64)


def _as_stored(matrix: Array, product: Operation) -> Array:
    """The inverse of `_matrix`."""
    op: Any = product.op
    return matrix.T if isinstance(op, top.MatMul) and not op.right_transpose else matrix


def _is_of_channels(product: Operation) -> bool:
    """True if every place of the result depends only on the same place of the operand."""
    op: Any = product.op
    if isinstance(op, top.MatMul):
        return True
    return max(op.kernel_shape) == 1 and max(op.strides) == 1 and not any(op.pads)
