"""The importer table, and code shared by several families of importers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from tpuc.api import ForeignNode, FusesRelu, ImporterTable, Op, TensorType, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.elementwise import Function

from tpuc_tflite.building import NCHW, Arranged, Order, TfliteBuilder

TABLE = ImporterTable("tflite", "top")

NONE, RELU, RELU_N1_TO_1, RELU6 = range(4)
"""Fused activations of operators; the runtime ignores all others."""


def images(node: ForeignNode, build: TfliteBuilder, index: int = 0) -> Value:
    """Return operand `index` as `[n, c, h, w]`."""
    rank = len(build.shape(node.inputs[index]))
    if rank != 4:
        raise build.refuse(node, f"its operand '{node.inputs[index]}' has {rank} dimensions, but an image has 4")
    return build.value(node.inputs[index], NCHW)


def axis_of(node: ForeignNode, build: TfliteBuilder, axis: int, index: int = 0) -> int:
    """Return a foreign axis of operand `index`, counted from the front; refuses one that does not exist."""
    rank = len(build.shape(node.inputs[index]))
    if not -rank <= axis < rank:
        raise build.refuse(node, f"axis {axis} is not one of the {rank} dimensions of its operand")
    return axis % rank


def finish(
    node: ForeignNode,
    build: TfliteBuilder,
    op: Op,
    operands: Sequence[Value],
    order: Order | None = None,
    result_types: Sequence[TensorType] | None = None,
) -> Value | Arranged:
    """Build `op` and the node's fused activation; `order` is that of the result."""
    name, code = node.outputs[0], int(node.attributes.get("fused_activation_function", NONE))
    after = _activation(node, build, code)
    if isinstance(after, top.Relu) and isinstance(op, FusesRelu):
        op, after = _with_relu(op, after.relu_limit), None
    if after is None:
        value = build.build(op, operands, name, result_types)
    else:
        types = result_types
        if types is None:
            inferred = op.infer(tuple(value.tensor for value in operands))
            assert inferred is not None
            types = [inferred[0].with_element(build.entry(name).element)]
        inner = build.build(op, operands, f"{name}_linear", types)
        value = build.build(after, [inner], name, [inner.tensor])
    return value if order is None else Arranged(value, order)


def _with_relu(op: Any, limit: float) -> Op:
    """Fuse a relu into an op that supports it."""
    return dataclasses.replace(op, do_relu=True, relu_limit=limit if limit > 0 else -1.0)


def _activation(node: ForeignNode, build: TfliteBuilder, code: int) -> Op | None:
    match code:
        case 0:
            return None
        case 1:
            return top.Relu()
        case 2:
            return top.Clip(min=-1.0, max=1.0)
        case 3:
            return top.Relu(relu_limit=6.0)
        case _:
            raise build.refuse(node, f"its fused activation {code} is not supported")


def unary(op: Callable[[ForeignNode], Op]) -> Callable[[ForeignNode, TfliteBuilder], Arranged]:
    """Return an importer of a unary function, which keeps its operand's order."""

    return lambda node, build: in_order(node, build, op(node))


def in_order(node: ForeignNode, build: TfliteBuilder, op: Op) -> Arranged:
    """Apply `op` to the first operand, in the order in which it is stored."""
    order = build.order(node.inputs[0])
    return Arranged(build.build(op, [build.value(node.inputs[0], order)], node.outputs[0]), order)


def plain_function(op: type[Function]) -> Callable[[ForeignNode, TfliteBuilder], Arranged]:
    """Return the importer of a function without parameters."""
    return unary(lambda _: op())


def aligned(node: ForeignNode, build: TfliteBuilder, indices: Sequence[int]) -> tuple[list[Value], Order]:
    """Return operands that broadcast, all with the result's rank and in one order: that of the first computed operand
    with full rank.
    """
    names = [node.inputs[index] for index in indices]
    rank = max(len(build.shape(name)) for name in names)
    full = [name for name in names if build.constant(name) is None and len(build.shape(name)) == rank]
    orders = [build.order(name) for name in full]
    plain = tuple(range(rank))
    order = next((order for order in orders if order != plain), plain)
    return [_with_rank(build, name, rank, order) for name in names], order


def _with_rank(build: TfliteBuilder, name: str, rank: int, order: Order) -> Value:
    shape = build.shape(name)
    if len(shape) == rank:
        return build.value(name, order)
    grown = (1,) * (rank - len(shape)) + shape
    array = build.constant(name)
    if array is not None and build.is_quantized() and build.entry(name).is_quantized:
        return build.quantized_weight(f"{name}_aligned", array.reshape(grown).transpose(order), name)
    if array is not None:
        real = build.real(name)
        assert real is not None
        return build.weight(f"{name}_aligned", real.reshape(grown).transpose(order))
    value = build.reshape(build.value(name), grown, f"{name}_aligned")
    return build.permute(value, order, f"{name}_aligned_permuted")


def constant_of(node: ForeignNode, build: TfliteBuilder, index: int) -> Array:
    """Return the real values of operand `index`, which must be constant."""
    array = build.real(node.inputs[index])
    if array is None:
        raise build.refuse(node, f"its operand '{node.inputs[index]}' must be a constant")
    return array


def scalar(node: ForeignNode, build: TfliteBuilder) -> tuple[int, float] | None:
    """Return index and number of the operand that is a one-element float constant; None for quantized nodes."""
    if len(node.inputs) != 2 or build.is_quantized():
        return None
    for index in (1, 0):
        array = build.real(node.inputs[index])
        if array is not None and array.size == 1 and build.constant(node.inputs[1 - index]) is None:
            return index, float(array.reshape(()))
    return None


def float_only(node: ForeignNode, build: TfliteBuilder) -> None:
    """Refuse a node whose quantized form TFLite's own runtime does not support."""
    if build.is_quantized():
        raise build.refuse(node, "LiteRT has no quantized form of it either: export this node as float")
