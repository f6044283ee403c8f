"""Dimensions reduced to one value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Bool, I64Array, Node, Op, Str, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import positive_axis

_REDUCTIONS: Mapping[str, Callable[..., Any]] = {
    "ReduceMean": np.mean,
    "ReduceSum": np.sum,
    "ReduceMax": np.max,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceL1": lambda x, axis, keepdims: np.abs(x).sum(axis, keepdims=keepdims),
    "ReduceL2": lambda x, axis, keepdims: np.sqrt(np.square(x).sum(axis, keepdims=keepdims)),
}


@dataclass(frozen=True)
class Reduce(Op):
    """The dimensions `axes` reduced by `mode`: ReduceMean, ReduceSum, ReduceMax, ReduceMin, ReduceProd, ReduceL1 or
    ReduceL2. They stay with extent 1 when `keepdims`.
    """

    name = "top.Reduce"
    axes: I64Array
    mode: Str
    keepdims: Bool = True

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if self.mode not in _REDUCTIONS:
            raise ValueError(f"mode must be one of {', '.join(_REDUCTIONS)}, this one is {self.mode}")
        gone = self._axes(x.rank)
        dims = tuple(1 if i in gone else d for i, d in enumerate(x.dims) if self.keepdims or i not in gone)
        return (x.shape_only().with_shape(dims),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x = as_float(operands[0])
        return [np.asarray(_REDUCTIONS[self.mode](x, axis=self._axes(x.ndim), keepdims=self.keepdims), np.float32)]

    def _axes(self, rank: int) -> tuple[int, ...]:
        return tuple(sorted({positive_axis(axis, rank) for axis in self.axes}))

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
