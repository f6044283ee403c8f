"""Move a factor per channel from the filters that produce a value to those that read it, without changing the
network.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Builder, FusesRelu, Module, Operation, Value
from tpuc.api.evaluation import Array
from tpuc_ops import top
from tpuc_ops.traits import Homogeneous


@dataclass(frozen=True)
class Link:
    """`producer` computes `channels` channels, the ops in `between` only pass them on, and every one of `consumers`
    reads them.
    """

    producer: Operation
    between: tuple[Operation, ...]
    consumers: tuple[Operation, ...]
    channels: int

    @property
    def value(self) -> Value:
        """The value that the consumers read."""
        return (self.between[-1] if self.between else self.producer).result

    def along(self, numbers: Array) -> Array:
        """One number per channel, in a shape that broadcasts to the values."""
        is_last = not isinstance(self.producer.op, top.Conv)
        return numbers.reshape(-1, *(1,) * (0 if is_last else self.producer.result.tensor.rank - 2))


def find_links(module: Module, *, with_limits: bool = False) -> Iterator[Link]:
    """All links along which a factor can move, in order; `with_limits`: also those where all channels need the same
    factor, because a relu has a limit.
    """
    outputs = set(module.main.outputs)
    for operation in module.main.operations:
        channels = _output_channels(operation)
        if not channels or (_has_limit(operation) and not with_limits):
            continue
        between: list[Operation] = []
        value = operation.result
        while len(value.uses) == 1 and value not in outputs and isinstance(value.users[0].op, Homogeneous):
            if (_has_limit(value.users[0]) and not with_limits) or value.uses[0][1] != 0:
                break
            between.append(value.users[0])
            value = value.users[0].result
        users = value.users
        if value in outputs or not users or any(_input_channels(user) != channels for user in users):
            continue
        if all(position == 0 for _, position in value.uses):
            yield Link(operation, tuple(between), tuple(users), channels)


def reader_ranges(module: Module, link: Link) -> Array:
    """Per channel, the largest filter value that reads it."""
    result = np.zeros(link.channels)
    for consumer in link.consumers:
        result = np.maximum(result, np.abs(_by_input(consumer, _filters(module, consumer))).max(axis=1))
    return result


def writer_ranges(module: Module, link: Link) -> Array:
    """Per channel, the largest filter value that computes it, or its bias: otherwise a channel that is little more than
    a bias would become the largest of all.
    """
    filters, bias = _filters(module, link.producer), constant(module, link.producer, 2)
    if isinstance(link.producer.op, top.LayerNorm):
        rows = filters.reshape(-1, 1)
    else:
        rows = filters if isinstance(link.producer.op, top.Conv) else _columns(link.producer, filters).T
    largest = np.abs(rows.reshape(link.channels, -1).astype(np.float64)).max(axis=1)
    return largest if bias is None else np.maximum(largest, np.abs(bias.reshape(-1).astype(np.float64)))


def move(module: Module, link: Link, factors: Array, build: Builder | None = None) -> None:
    """Divide every channel by its factor in its producer and multiply it in its readers. Callers that move many factors
    pass `build`, which knows the used names.
    """
    producer = link.producer
    inverse = 1.0 / factors
    filters = _filters(module, producer)
    if isinstance(producer.op, top.Conv):
        scaled = filters * inverse.reshape(-1, *(1,) * (filters.ndim - 1))
    elif isinstance(producer.op, top.LayerNorm):
        scaled = filters * inverse.reshape(filters.shape)
    else:
        scaled = filters * (inverse[:, None] if producer.op.__dict__["right_transpose"] else inverse)
    set_constant(module, producer, 1, scaled, build)
    bias = constant(module, producer, 2)
    if bias is not None:
        set_constant(module, producer, 2, bias * inverse.reshape(bias.shape), build)
    for consumer in link.consumers:
        set_constant(module, consumer, 1, _scale_inputs(consumer, _filters(module, consumer), factors), build)
    for operation in (producer, *link.between):
        if _has_limit(operation):
            op: Any = operation.op
            operation.op = dataclasses.replace(op, relu_limit=float(op.relu_limit * inverse[0]))


def constant(module: Module, operation: Operation, position: int) -> Array | None:
    """A constant operand's array."""
    if position >= len(operation.operands):
        return None
    return module.constant(operation.operands[position])


def set_constant(
    module: Module, operation: Operation, position: int, array: Array, build: Builder | None = None
) -> None:
    """Set an operand to a new constant; other readers keep the old one."""
    old = operation.operands[position]
    build = build or Builder(module, constant=top.Weight())
    build.at(operation)
    name = old.name or f"{operation.name}_{position}"
    array = np.ascontiguousarray(array, np.float32)
    operation.set_operand(position, build.weight(name, array, operation.result.tensor.storage))


def _filters(module: Module, operation: Operation) -> Array:
    array = constant(module, operation, 1)
    assert array is not None
    return array


def _has_limit(operation: Operation) -> bool:
    fields = operation.op.__dict__
    if isinstance(operation.op, top.Relu):
        return fields["relu_limit"] > 0
    return isinstance(operation.op, FusesRelu) and fields["do_relu"] and fields["relu_limit"] > 0


def _is_matrix_product(operation: Operation) -> bool:
    """True if it multiplies the last dimension by a constant matrix."""
    op = operation.op
    if not isinstance(op, top.MatMul) or op.left_transpose or op.output_transpose:
        return False
    return operation.operands[1].is_constant and operation.operands[1].tensor.rank == 2


def _output_channels(operation: Operation) -> int:
    """The number of channels with filters of their own, 0 when there are none to scale."""
    op = operation.op
    if isinstance(op, top.Conv) and operation.operands[1].is_constant:
        return operation.result.tensor.dims[1]
    if _is_matrix_product(operation):
        return operation.result.tensor.dims[-1]
    if isinstance(op, top.LayerNorm) and len(operation.operands) > 1 and operation.operands[1].is_constant:
        last = operation.result.tensor.dims[-1]
        return last if operation.operands[1].tensor.size == last else 0
    return 0


def _input_channels(operation: Operation) -> int:
    op = operation.op
    if isinstance(op, top.Conv) and operation.operands[1].is_constant and not op.inserts:
        return operation.operands[0].tensor.dims[1]
    return operation.operands[0].tensor.dims[-1] if _is_matrix_product(operation) else 0


def _columns(operation: Operation, filters: Array) -> Array:
    """A matrix as `[k, n]`."""
    return filters.T if operation.op.__dict__["right_transpose"] else filters


def _by_input(operation: Operation, filters: Array) -> Array:
    """Filters as `[input channel, all its readers' weights]`."""
    if isinstance(operation.op, top.MatMul):
        return _columns(operation, filters).astype(np.float64)
    group = operation.op.__dict__["group"]
    parts = filters.astype(np.float64).reshape(group, filters.shape[0] // group, filters.shape[1], -1)
    return parts.transpose(0, 2, 1, 3).reshape(group * filters.shape[1], -1)


def _scale_inputs(operation: Operation, filters: Array, factors: Array) -> Array:
    if isinstance(operation.op, top.MatMul):
        return filters * (factors if operation.op.right_transpose else factors[:, None])
    group = operation.op.__dict__["group"]
    parts = filters.reshape(group, filters.shape[0] // group, filters.shape[1], -1)
    return (parts * factors.reshape(group, 1, filters.shape[1], 1)).reshape(filters.shape)
