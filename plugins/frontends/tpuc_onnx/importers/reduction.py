"""Reductions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from tpuc.api import ForeignNode, Value
from tpuc_importing.operands import whole_quotient
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE, axes_of, is_integer


@TABLE.imports(*(f"Reduce{kind}" for kind in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")))
def reduce(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a reduction; without axes it covers everything, or nothing if the node says so."""
    x = build.value(node.inputs[0])
    axes = axes_of(node, build, 1) or ()
    if not axes and node.attributes.get("noop_with_empty_axes", 0):
        is_norm = node.op_type in ("ReduceL1", "ReduceL2")
        return build.build(top.Abs(), [x], node.outputs[0]) if is_norm else x
    rank = x.tensor.rank
    op = top.Reduce(
        axes=tuple(sorted(axis % rank for axis in axes)) or tuple(range(rank)),
        mode=node.op_type,
        keepdims=node.attributes.get("keepdims", 1) == 1,
    )
    kind = build.elem_type(node.inputs[0])
    if node.op_type == "ReduceMean" and is_integer(kind):
        return _whole_mean(op, x, node.outputs[0], kind, build)
    return build.build(op, [x], node.outputs[0])


def _whole_mean(op: top.Reduce, x: Value, name: str, kind: str, build: OnnxBuilder) -> Value:
    """Divide the sum by the number of elements, as integers are divided."""
    total = build.build(replace(op, mode="ReduceSum"), [x], f"{name}_sum")
    count = math.prod(x.tensor.dims[axis] for axis in op.axes)
    number = build.weight(f"{name}_count", np.full((1,) * total.tensor.rank, count))
    return whole_quotient(total, number, name, build, unsigned=kind.startswith("u"))
