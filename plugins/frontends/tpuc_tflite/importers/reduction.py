"""Reductions."""

from __future__ import annotations

from tpuc.api import ForeignNode
from tpuc_importing.operands import integers, required_constant
from tpuc_ops import top

from tpuc_tflite.building import Arranged, Order, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, axis_of

# True is 1 and false is 0.
_MODES = {
    "MEAN": "ReduceMean",
    "REDUCE_ALL": "ReduceMin",
    "REDUCE_ANY": "ReduceMax",
    "REDUCE_MAX": "ReduceMax",
    "REDUCE_MIN": "ReduceMin",
    "REDUCE_PROD": "ReduceProd",
    "SUM": "ReduceSum",
}


@TABLE.imports(*_MODES)
def reduce(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import a reduction in the operand's order; without axes nothing happens."""
    if node.op_type == "REDUCE_PROD" and build.is_quantized():
        raise build.refuse(node, "products of quantized values are not supported: export this node as float")
    name, order = node.outputs[0], build.order(node.inputs[0])
    axes = {axis_of(node, build, axis) for axis in integers(required_constant(node, build, 1, "the list of axes"))}
    value = build.value(node.inputs[0], order)
    keep = bool(node.attributes.get("keep_dims", False))
    if not axes and not build.is_quantized():
        return Arranged(value, order)
    places = tuple(sorted(order.index(axis) for axis in axes))
    if keep or len(axes) < len(order):
        op = top.Reduce(axes=places, mode=_MODES[node.op_type], keepdims=keep)
        return Arranged(build.build(op, [value], name), order if keep else remaining(order, axes))
    kept = build.build(top.Reduce(axes=places, mode=_MODES[node.op_type], keepdims=True), [value], f"{name}_kept")
    return Arranged(build.reshape(kept, (1,), name), (0,))


def remaining(order: Order, gone: set[int]) -> Order:
    """Return the order of a value after some foreign dimensions are removed."""
    left = [axis for axis in order if axis not in gone]
    ranks = sorted(left)
    return tuple(ranks.index(axis) for axis in left)
