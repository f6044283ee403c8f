"""Reduction of dimensions as the chip computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Bool, I64Array, Node, Op, Raw, RoundMode, Str, Types, numpy_dtype

from tpuc_ops import top
from tpuc_ops.arrays import Array, as_float, stored
from tpuc_ops.attributes import SingleI64, listed
from tpuc_ops.integers import is_integer, zero_point
from tpuc_ops.quant.arithmetic import Rounding, requantize
from tpuc_ops.shapes import positive_axis

_INTEGER_MODES = ("ReduceMean", "ReduceSum", "ReduceMax")


@dataclass(frozen=True)
class Reduce(Op):
    """As `top.Reduce` on floats, in float32.

    Integers, exact: ReduceMax copies stored values; ReduceSum and ReduceMean are ``sum(q - zp) * multiplier /
    2**rshift`` rounded by `round_mode`, where the multiplier includes the division by the count, plus the result's zero
    point, saturated.
    """

    name = "tpu.Reduce"
    slots = listed(3, kept=1)
    axes: I64Array
    mode: Str
    keepdims: Bool = True
    multiplier: SingleI64 = 1
    rshift: SingleI64 = 0
    round_mode: RoundMode = "HalfUp"
    ginfo: Raw = None

    def _top(self) -> top.Reduce:
        return top.Reduce(axes=self.axes, mode=self.mode, keepdims=self.keepdims)

    def infer(self, operands: Types) -> Types:
        (x,) = operands
        if is_integer(x) and self.mode not in _INTEGER_MODES:
            raise ValueError(f"mode {self.mode} has no integer form; modes with one: {', '.join(_INTEGER_MODES)}")
        (inferred,) = self._top().infer((x.shape_only(),))
        return (x.with_shape(inferred.dims) if self.mode == "ReduceMax" else inferred,)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        (x,) = operands
        type = node.result_type
        if not is_integer(type):
            (result,) = self._top().evaluate(node, [as_float(x)])
            return [stored(result, type)]
        axes = tuple(sorted({positive_axis(axis, x.ndim) for axis in self.axes}))
        if self.mode == "ReduceMax":
            return [x.max(axes, keepdims=self.keepdims)]
        total = (x.astype(np.int64) - zero_point(node.operand_types[0])).sum(axes, keepdims=self.keepdims)
        rounding, dtype = Rounding(self.round_mode), numpy_dtype(type.storage)
        return [requantize(total, self.multiplier, self.rshift, zero_point(type), rounding, dtype)]

    def flops(self, node: Node) -> int:
        return node.operand_types[0].size
