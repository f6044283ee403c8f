"""Unary functions and softmax."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import constant_input, reshape
from tpuc_ops import top

from tpuc_onnx.importers.common import TABLE

AXIS_ALONE_SINCE = 13
"""Before this opset, softmax normalized over all dimensions from `axis` on."""

LARGEST = float(np.finfo(np.float32).max)


@TABLE.imports("Relu")
def relu(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a ReLU without an upper limit."""
    return build.build(top.Relu(), [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("Clip")
def clip(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a clip; the limits are attributes up to opset 10, constant operands later, and both may be absent."""
    low, high = _limit(node, build, 1, "min", -LARGEST), _limit(node, build, 2, "max", LARGEST)
    return build.build(top.Clip(min=low, max=high), [build.value(node.inputs[0])], node.outputs[0])


def _limit(node: ForeignNode, build: ImportBuilder, index: int, label: str, default: float) -> float:
    array = constant_input(node, build, index, f"its limit '{label}'")
    number = float(array.reshape(())) if array is not None else float(node.attributes.get(label, default))
    return min(max(number, -LARGEST), LARGEST)


@TABLE.imports("Softmax", "LogSoftmax")
def softmax(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a softmax; old opsets normalize everything from `axis` on jointly, so the operand is flattened for
    them.
    """
    x, name = build.value(node.inputs[0]), node.outputs[0]
    dims, log = x.tensor.dims, node.op_type == "LogSoftmax"
    axis = node.attributes.get("axis", 1 if node.version < AXIS_ALONE_SINCE else -1) % len(dims)
    long_axes = [index for index in range(axis, len(dims)) if dims[index] > 1]
    if node.version >= AXIS_ALONE_SINCE or len(long_axes) <= 1:
        if node.version < AXIS_ALONE_SINCE and long_axes:
            (axis,) = long_axes
        return build.build(top.Softmax(axis=axis, log=log), [x], name)
    x = reshape(build, x, (math.prod(dims[:axis]), math.prod(dims[axis:])), f"{name}_rows")
    if x.tensor.dims == dims:
        return build.build(top.Softmax(axis=1, log=log), [x], name)
    return reshape(build, build.build(top.Softmax(axis=1, log=log), [x], f"{name}_flat"), dims, name)
