"""Convert integers to memory offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import SI32, Elementwise, Node, Op, Raw, ScalarType, TensorType, Types

from tpuc_ops.arrays import Array
from tpuc_ops.shapes import broadcast


@dataclass(frozen=True)
class RowIndex(Op, Elementwise):
    """``(x < 0 ? x + extent : x) * stride`` with x truncated to int32; plus a second int32 operand, if any."""

    name = "tpu.RowIndex"
    extent: SI32
    stride: SI32 = 1
    ginfo: Raw = None

    def infer(self, operands: Types) -> Types:
        return (TensorType(broadcast(*(operand.dims for operand in operands)), ScalarType("i32")),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        x, *others = operands
        limits = np.iinfo(np.int32)
        whole = np.clip(np.trunc(np.nan_to_num(x.astype(np.float64))), limits.min, limits.max).astype(np.int64)
        places = np.where(whole < 0, whole + self.extent, whole) * self.stride
        for other in others:
            places = places + other
        return [np.ascontiguousarray(np.broadcast_to(places, node.result_type.dims)).astype(np.int32)]

    def flops(self, node: Node) -> int:
        return 3 * node.result_type.size
