"""Nodes by themselves, for kernels and lowerings to take or to refuse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import F32, ElementType, LoweringNode, Node, Op, TensorType


def t(*dims: int, element: ElementType = F32) -> TensorType:
    return TensorType(dims, element)


def node(op: Op, operands: Sequence[TensorType], result: TensorType | None = None) -> Node:
    if result is None:
        inferred = op.infer(tuple(operands))
        assert inferred is not None
        (result,) = inferred
    return Node(op, tuple(operands), (result,), "node")


def top(op: Op, *operands: tuple[int, ...] | np.ndarray, mode: str = "f32") -> LoweringNode:
    constants = tuple(operand if isinstance(operand, np.ndarray) else None for operand in operands)
    types = tuple(t(*(operand.shape if isinstance(operand, np.ndarray) else operand)) for operand in operands)
    return LoweringNode(op, types, (types[0],), "node", (), constants, mode)
