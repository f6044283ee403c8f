"""Reductions of rows and columns, which are pooling over the whole plane."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.avg_pool import AvgPool
from tpuc_ops.top.max_pool import MaxPool
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.tpu.reshape import Reshape as TpuReshape

from tpuc_cv183x.lowerings.common import Renamed
from tpuc_cv183x.lowerings.pools import AvgPoolBf16, AvgPoolInt8, MaxPoolAny
from tpuc_cv183x.lowerings.table import TABLE

_POOLS = {"ReduceMean": AvgPool, "ReduceMax": MaxPool}


@TABLE.lowers(Reduce, "bf16", "int8")
class ReduceAny(Lowering[Reduce]):
    """Means and maxima over rows and columns of images, or over one of them."""

    def refuse(self, node: LoweringNode) -> str | None:
        op: Reduce = node.op
        rank = len(node.operand_types[0].dims)
        if op.mode not in _POOLS:
            return f"ReduceMean and ReduceMax only, this one is {op.mode}"
        axes = {positive_axis(axis, rank) for axis in op.axes}
        if rank != 4 or not axes <= {2, 3}:
            return f"rows and columns of four dimensions only, these are {sorted(axes)} of {rank}"
        return None

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Reduce = node.op
        n, c, h, w = node.operand_types[0].dims
        axes = {positive_axis(axis, 4) for axis in op.axes}
        kernel = (h if 2 in axes else 1, w if 3 in axes else 1)
        dims = (n, c, h // kernel[0], w // kernel[1])
        pool = _POOLS[op.mode](kernel_shape=kernel, strides=(1, 1), pads=(0, 0, 0, 0))
        cell: Lowering[Any] = MaxPoolAny()
        if op.mode == "ReduceMean":
            cell = AvgPoolInt8() if node.mode == "int8" else AvgPoolBf16()
        if op.keepdims:
            return cell.lower(dataclasses.replace(node, op=pool), build)
        pooled = dataclasses.replace(node, op=pool, result_types=(node.result_type.with_shape(dims),))
        (value,) = cell.lower(pooled, Renamed(build, f"{node.name}_pooled"))
        return [build(TpuReshape(shape=node.result_type.dims), [value], value.tensor.with_shape(node.result_type.dims))]
