"""Dimensions reduced to one value."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops.top.abs import Abs
from tpuc_ops.top.reduce import Reduce

from tpuc_onnx.importers.common import TABLE, axes_of


@TABLE.imports(*(f"Reduce{kind}" for kind in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")))
def reduce(node: ForeignNode, build: ImportBuilder) -> Value:
    """Without axes everything is reduced, or nothing when the node says so."""
    x = build.value(node.inputs[0])
    axes = axes_of(node, build, 1) or ()
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        is_norm = node.op_type in ("ReduceL1", "ReduceL2")
        return build.build(Abs(), [x], node.outputs[0]) if is_norm else x
    rank = x.tensor.rank
    op = Reduce(
        axes=tuple(sorted(axis % rank for axis in axes)) or tuple(range(rank)),
        mode=node.op_type,
        keepdims=node.attributes.get("keepdims", 1) == 1,
    )
    return build.build(op, [x], node.outputs[0])
