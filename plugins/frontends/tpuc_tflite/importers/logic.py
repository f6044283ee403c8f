"""Comparisons, selection, and positions of extremes. True is 1 and false is 0."""

from __future__ import annotations

import dataclasses

from tpuc.api import ForeignNode
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top

from tpuc_tflite.building import Arranged, Results, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, aligned, axis_of, float_only, in_order
from tpuc_tflite.importers.reduction import remaining

_COMPARISONS = {
    "EQUAL": "Equal",
    "GREATER": "Greater",
    "GREATER_EQUAL": "GreaterOrEqual",
    "LESS": "Less",
    "LESS_EQUAL": "LessOrEqual",
    "LOGICAL_AND": "And",
    "LOGICAL_OR": "Or",
    "NOT_EQUAL": "NotEqual",
}


@TABLE.imports(*_COMPARISONS)
def compare(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a comparison; quantized operands are compared by their real values."""
    operands, order = aligned(node, build, (0, 1))
    operands = [build.real_value(operand) for operand in operands]
    return Arranged(build.build(top.Compare(mode=_COMPARISONS[node.op_type]), operands, node.outputs[0]), order)


@TABLE.imports("LOGICAL_NOT")
def logical_not(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Return 1 where the operand is 0."""
    return in_order(node, build, top.CompareConst(mode="Equal", const_val=0.0))


@TABLE.imports("SELECT", "SELECT_V2")
def select(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a selection; SELECT accepts a one-dimensional condition, which selects along the first dimension."""
    condition, branch = (len(build.shape(name)) for name in node.inputs[:2])
    if node.op_type == "SELECT" and condition == 1 and branch > 1:
        raise build.refuse(
            node, "a condition that selects along the first dimension is not supported: export it with SELECT_V2"
        )
    operands, order = aligned(node, build, (0, 1, 2))
    return Arranged(build.build(top.Where(), operands, node.outputs[0]), order)


@TABLE.imports("ARG_MAX", "ARG_MIN")
def arg(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import the index of an extreme, the first of equal ones; the axis is removed."""
    axis = axis_of(node, build, integers(required_constant(node, build, 1, "the axis"))[0])
    order = build.order(node.inputs[0])
    op = top.Arg(axis=order.index(axis), keepdims=False, mode="ArgMax" if node.op_type == "ARG_MAX" else "ArgMin")
    value = build.value(node.inputs[0], order)
    if len(order) == 1:
        op = dataclasses.replace(op, keepdims=True)
    names = (node.outputs[0], f"{node.outputs[0]}_values")
    index = build.build_all(op, [value], names)[0]
    return Arranged(index, remaining(order, {axis}) if len(order) > 1 else order)


@TABLE.imports("TOPK_V2")
def topk(node: ForeignNode, build: TfliteBuilder) -> Results:
    """Import the largest values along the last dimension, best first."""
    order = build.order(node.inputs[0])
    count = integers(required_constant(node, build, 1, "the number of elements"))[0]
    op = top.TopK(axis=order.index(axis_of(node, build, -1)), K=count)
    values = build.build_all(op, [build.value(node.inputs[0], order)], node.outputs)
    return [Arranged(value, order) for value in values]


@TABLE.imports("CUMSUM")
def cumsum(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a cumulative sum along a constant axis."""
    float_only(node, build)
    order = build.order(node.inputs[0])
    axis = axis_of(node, build, integers(required_constant(node, build, 1, "the axis"))[0])
    exclusive, reverse = (bool(node.attributes.get(name, False)) for name in ("exclusive", "reverse"))
    op = top.CumSum(axis=order.index(axis), exclusive=exclusive, reverse=reverse)
    return in_order(node, build, op)
