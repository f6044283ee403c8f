"""Products of a tensor and a function of the same tensor in prequantized networks, as byte tables."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, LoweringBuilder, LoweringNode, Node, Op, TensorType, Value, numpy_dtype
from tpuc_chip_parts.lowering import is_stated
from tpuc_ops import top, tpu
from tpuc_ops.quantized import ComputesIntegers


@dataclass(frozen=True)
class Gate:
    """`function` computes the other operand from operand `index`."""

    index: int
    function: Node[Op]


def gate_of(node: LoweringNode) -> Gate | None:
    """The gate, if the node is a product of two prequantized operands, one of which is a function of the other."""
    if not isinstance(node.op, top.Mul) or len(node.operand_types) != 2 or not is_stated(node):
        return None
    if not all(one.is_quantized for one in node.operand_types):
        return None
    for index, made_of in enumerate(node.made_of):
        if made_of is None or made_of[0] == index:
            continue
        if isinstance(made_of[1].op, Elementwise) and isinstance(made_of[1].op, ComputesIntegers):
            return Gate(made_of[0], made_of[1])  # a mean, a share or a move makes no byte of the same byte alone
    return None


def gated(node: LoweringNode, gate: Gate, build: LoweringBuilder) -> Value:
    """A table with the result of function and product for each byte."""
    value, result = node.operands[gate.index], node.quantized_result_type()
    every = np.arange(256, dtype=np.uint8).view(numpy_dtype(value.tensor.storage))
    types = [TensorType(every.shape, type_.element) for type_ in node.operand_types]
    made = types[1 - gate.index]
    (other,) = gate.function.op.evaluate(Node(gate.function.op, (types[gate.index],), (made,), node.name), [every])
    arrays = [other, other]
    arrays[gate.index] = every
    (entries,) = node.op.evaluate(
        Node(node.op, tuple(types), (TensorType(every.shape, result.element),), node.name), arrays
    )
    element = "ui8" if result.storage.is_unsigned else "si8"
    return build(tpu.Lut(), [value, build.weight("table", entries.reshape(1, 1, 1, 256), element)], result)
