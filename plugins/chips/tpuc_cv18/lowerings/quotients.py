"""Quotients of bf16 values."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import BF16, Lowering, LoweringBuilder, LoweringNode, Value, Wants
from tpuc_ops import top, tpu

from tpuc_cv18.lowerings.affine import is_affine
from tpuc_cv18.lowerings.casts import cast
from tpuc_cv18.lowerings.common import as_bf16
from tpuc_cv18.lowerings.elementwise import MulBf16, MulInt8
from tpuc_cv18.lowerings.table import TABLE


def _divides_by_constant(node: LoweringNode) -> bool:
    return node.constants[0 if node.op.is_reverse else 1] is not None


@TABLE.lowers(top.Div, "bf16", "int8")
class DivAny(Lowering[top.Div]):
    """Division by a constant multiplies by its reciprocal. Division by computed values runs in bf16, because an 8-bit
    scale for a quotient's range loses its small values.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        stays = node.mode == "int8" and not _divides_by_constant(node)
        return (Wants.AS_IS if stays else Wants.MODE,) * len(node.operand_types)

    def refuse(self, node: LoweringNode) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        divisor = node.constants[0 if node.op.is_reverse else 1]
        if divisor is not None and not divisor.all():
            return "a constant divisor must not contain 0"
        return None

    def takes_zero_points(self, node: LoweringNode) -> bool:
        return is_affine(node)

    def lower(self, node: LoweringNode[top.Div], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        if _divides_by_constant(node):
            place = 0 if op.is_reverse else 1
            divisor = node.constants[place]
            assert divisor is not None
            constants = list(node.constants)
            constants[place] = (1.0 / divisor.astype(np.float64)).astype(np.float32)
            product = top.Mul(do_relu=op.do_relu, relu_limit=op.relu_limit)
            cell: Lowering[Any] = MulInt8() if node.mode == "int8" else MulBf16()
            return cell.lower(dataclasses.replace(node, op=product, constants=tuple(constants)), build)
        lowered = tpu.Div(do_relu=op.do_relu, relu_limit=op.relu_limit, is_reverse=op.is_reverse)
        values = [
            _as_bf16(value, f"{node.name}_operand{index}", build)
            if constant is None
            else build.weight(f"operand{index}_bf16", as_bf16(constant), "bf16")
            for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True))
        ]
        if node.constants[0] is not None:  # the first operand determines the result type
            values, lowered = values[::-1], dataclasses.replace(lowered, is_reverse=not op.is_reverse)
        return [build(lowered, values, node.result_type.shape_only().with_element(BF16))]


def _as_bf16(value: Value, name: str, build: LoweringBuilder) -> Value:
    type_ = value.tensor
    if type_.storage == BF16:
        return value
    return cast(value, type_.shape_only().with_element(BF16), f"{name}_bf16", build)
