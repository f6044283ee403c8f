"""Reductions of dimensions."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, TensorType, Value, Wants
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.tpu.permute import Permute as TpuPermute
from tpuc_ops.tpu.reduce import Reduce as TpuReduce
from tpuc_ops.tpu.reshape import Reshape as TpuReshape

from tpuc_bm1684x.lowerings.common import ALL, INTEGERS
from tpuc_bm1684x.lowerings.table import TABLE

_INTEGER_MODES = ("ReduceMean", "ReduceSum", "ReduceMax")


@TABLE.lowers(Reduce, *ALL)
class ReduceAny(Lowering[Reduce]):
    """Neighbouring dimensions as they are; others are brought to the end first.

    int8: maxima pass through; sums and means times Sx / Sy (over the count) as a multiplier and a shift. The other
    modes stay f32.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        wanted = Wants.FLOAT if node.mode in INTEGERS and node.op.mode not in _INTEGER_MODES else Wants.MODE
        return (wanted,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Reduce = node.op
        value = node.operands[0]
        type_ = value.tensor
        axes = sorted({positive_axis(axis, type_.rank) for axis in op.axes})
        tpu, result = _reduction(node, math.prod(type_.dims[axis] for axis in axes))
        if axes == list(range(axes[0], axes[0] + len(axes))):
            return [build(dataclasses.replace(tpu, axes=tuple(axes), keepdims=op.keepdims), [value], result)]
        kept = [axis for axis in range(type_.rank) if axis not in axes]
        dims = tuple(type_.dims[axis] for axis in (*kept, *axes))
        value = build(TpuPermute(order=(*kept, *axes)), [value], type_.with_shape(dims), f"{node.name}_permuted")
        tpu = dataclasses.replace(tpu, axes=tuple(range(len(kept), type_.rank)), keepdims=False)
        value = build(tpu, [value], result.with_shape(dims[: len(kept)]), f"{node.name}_reduced")
        return [build(TpuReshape(shape=result.dims), [value], result)]


def _reduction(node: LoweringNode, count: int) -> tuple[TpuReduce, TensorType]:
    """The op without its axes, and the type of its result."""
    type_ = node.operands[0].tensor
    op, plain = TpuReduce(axes=(), mode=node.op.mode), type_.with_shape(node.result_type.dims)
    mean = node.op.mode == "ReduceMean"
    if not type_.is_quantised or node.op.mode == "ReduceMax":
        return op, plain
    result = node.quantised_result_type()
    factor = type_.uniform.scale / result.uniform.scale
    multiplier, shift = decompose_search(factor / count if mean else factor, bits=32)
    return dataclasses.replace(op, multiplier=multiplier, rshift=shift), result
