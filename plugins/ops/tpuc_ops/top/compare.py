"""Comparison and logic of two tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, Node, Op, Str, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.elementwise import broadcast_type

MODES: Mapping[str, Callable[[Array, Array], Array]] = {
    "Equal": np.equal,
    "NotEqual": np.not_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
}

COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
"""Modes that compare numbers; the others combine truth values."""
MIRRORED = {
    "Greater": "Less",
    "GreaterOrEqual": "LessOrEqual",
    "Less": "Greater",
    "LessOrEqual": "GreaterOrEqual",
}
"""The equivalent mode with exchanged operands."""


@dataclass(frozen=True)
class Compare(Op, Elementwise):
    """1 where ``lhs mode rhs`` holds, else 0; the operands broadcast.

    `mode`: Equal, NotEqual, Greater, GreaterOrEqual, Less, LessOrEqual; for And, Or, and Xor, every number but 0 is
    true.
    """

    name = "top.Compare"
    mode: Str

    def infer(self, operands: Types) -> Types:
        check_mode(self.mode)
        return (broadcast_type(operands[:2]),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        left, right = (as_float(operand) for operand in operands[:2])
        return [MODES[self.mode](left, right).astype(np.float32)]

    def flops(self, node: Node) -> int:
        return node.result_type.size


def check_mode(mode: str) -> None:
    """Raise ValueError for an unknown mode."""
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, this one is {mode}")
