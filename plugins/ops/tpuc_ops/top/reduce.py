"""Reduction of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, I64Array, Node, Op, Str, Types, Uniform

from tpuc_ops import quantized
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.shapes import positive_axis
from tpuc_ops.traits import Differentiable

_MODES = ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2")


@dataclass(frozen=True)
class Reduce(Op, quantized.Rescales, Differentiable):
    """Reduce the dimensions `axes` by `mode`: ReduceMean, ReduceSum, ReduceMax, ReduceMin, ReduceProd, ReduceL1, or
    ReduceL2. With `keepdims` they stay with extent 1.
    """

    name = "top.Reduce"
    axes: I64Array
    mode: Str
    keepdims: Bool = True

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if self.mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, this one is {self.mode}")
        gone = self._axes(x.rank)
        dims = tuple(1 if i in gone else d for i, d in enumerate(x.dims) if self.keepdims or i not in gone)
        return (x.shape_only().with_shape(dims),)

    def takes_integers(self, operands: Types, result: Uniform) -> bool:
        if self.mode in ("ReduceMax", "ReduceMin"):
            return operands[0].element == result
        return self.mode in ("ReduceMean", "ReduceSum") and super().takes_integers(operands, result)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        if quantized.is_quantized(node):
            return [quantized.reduce(self, node, operands, self._axes(operands[0].ndim))]
        x = as_float(operands[0])
        return [self._reduced(x, self._axes(x.ndim)).astype(np.float32, copy=False)]

    def _reduced(self, x: Array, axes: tuple[int, ...]) -> Array:
        match self.mode:
            case "ReduceMean":
                return x.mean(axes, keepdims=self.keepdims)
            case "ReduceSum":
                return x.sum(axes, keepdims=self.keepdims)
            case "ReduceMax":
                return x.max(axes, keepdims=self.keepdims)
            case "ReduceMin":
                return x.min(axes, keepdims=self.keepdims)
            case "ReduceProd":
                return x.prod(axes, keepdims=self.keepdims)
            case "ReduceL1":
                return np.abs(x).sum(axes, keepdims=self.keepdims)
            case _:
                return np.sqrt(np.square(x).sum(axes, keepdims=self.keepdims))

    def _axes(self, rank: int) -> tuple[int, ...]:
        return tuple(sorted({positive_axis(axis, rank) for axis in self.axes}))

    def adjoint(self, operands: Sequence[Array], result: Array, gradient: Array) -> Sequence[Array] | None:
        if self.mode not in ("ReduceMean", "ReduceSum"):
            return None
        x = operands[0]
        axes = {axis % x.ndim for axis in self.axes}
        dims = [1 if axis in axes else size for axis, size in enumerate(x.shape)]
        share = gradient.size / x.size if self.mode == "ReduceMean" else 1.0
        return [np.broadcast_to(gradient.reshape(dims) * np.float32(share), x.shape)]

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
