"""Operators that only change the shape or order of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import constant_input, permute, reshape
from tpuc_ops import top

from tpuc_onnx.importers.common import TABLE


@TABLE.imports("Identity", "OptionalGetElement")
def identity(node: ForeignNode, build: ImportBuilder) -> Value:
    """Pass the operand on."""
    return build.value(node.inputs[0])


@TABLE.imports("Dropout")
def dropout(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:
    """Pass the operand on, as at inference; the mask is all true."""
    training = constant_input(node, build, 2, "the mode of training")
    ratio = constant_input(node, build, 1, "the share of elements to drop")
    if training is not None and training.any() and (ratio is None or ratio.any()):
        raise build.refuse(node, "it drops elements at random: export the network for inference")
    x = build.value(node.inputs[0])
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [x]
    return [x, build.build(top.CompareConst(mode="GreaterOrEqual", const_val=-math.inf), [x], node.outputs[1])]


@TABLE.imports("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def to_shape(node: ForeignNode, build: ImportBuilder) -> Value:
    """Reshape to the result's static shape."""
    name = node.outputs[0]
    return reshape(build, build.value(node.inputs[0]), build.shape(name), name)


@TABLE.imports("Transpose")
def transpose(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a permutation; without `perm` the order is reversed."""
    x = build.value(node.inputs[0])
    order = node.attributes.get("perm", tuple(reversed(range(x.tensor.rank))))
    return permute(build, x, order, node.outputs[0])
