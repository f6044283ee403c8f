"""Operators that only give the elements another shape or order."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import constant_input, permute, reshape
from tpuc_ops import top

from tpuc_onnx.importers.common import TABLE


@TABLE.imports("Identity", "OptionalGetElement")
def identity(node: ForeignNode, build: ImportBuilder) -> Value:
    """Nothing happens."""
    return build.value(node.inputs[0])


@TABLE.imports("Dropout")
def dropout(node: ForeignNode, build: ImportBuilder) -> Sequence[Value]:
    """Nothing happens at inference, and the mask says so."""
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
    """The result's static shape says it all."""
    name = node.outputs[0]
    return reshape(build, build.value(node.inputs[0]), build.shape(name), name)


@TABLE.imports("Transpose")
def transpose(node: ForeignNode, build: ImportBuilder) -> Value:
    """Without `perm` the order is reversed."""
    x = build.value(node.inputs[0])
    order = node.attributes.get("perm", tuple(reversed(range(x.tensor.rank))))
    return permute(build, x, order, node.outputs[0])
