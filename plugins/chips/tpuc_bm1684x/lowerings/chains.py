"""Float sums and products of any number of operands with coefficients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from tpuc.api import LoweringBuilder, LoweringNode, Op, TensorType, Value
from tpuc_ops import tpu
from tpuc_ops.shapes import broadcast

from tpuc_bm1684x.lowerings.common import float_weight, rounded

Combine: TypeAlias = "Callable[[bool], Op]"
"""Makes the op for two operands; the argument is true for the last one, which applies the relu."""


def scaled_operands(node: LoweringNode, build: LoweringBuilder, type_: TensorType) -> list[Value]:
    """Operands times their coefficients, with constants in the element type of `type_`."""
    mode = type_.storage.name
    factors = getattr(node.op, "coeff", None) or (1.0,) * len(node.operands)
    values: list[Value] = []
    for index, (value, constant, factor) in enumerate(zip(node.operands, node.constants, factors, strict=True)):
        if constant is not None and (factor != 1.0 or mode != "f32"):
            value = float_weight(build, f"operand{index}", constant * np.float32(factor), mode)
        elif factor != 1.0:
            name = f"{node.name}_scaled{index}"
            value = build(tpu.MulConst(const_val=rounded(factor, mode)), [value], value.tensor.at(None), name)
        values.append(value)
    return values


def chained(
    node: LoweringNode, build: LoweringBuilder, combine: Combine, values: Sequence[Value], type_: TensorType
) -> Value:
    """Combine the operands pairwise from the first to the last."""
    total, *others = values
    for number, value in enumerate(others, 1):
        last = number == len(others)
        dims = broadcast(total.tensor.dims, value.tensor.dims)
        name = node.name if last else f"{node.name}_part{number}"
        total = build(combine(last), [total, value], type_.with_shape(dims).at(None), name)
    return total
