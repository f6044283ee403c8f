"""Reductions of dimensions."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import Lowering, LoweringBuilder, LoweringNode, TensorType, Value, Wants
from tpuc_ops.quant.arithmetic import decompose_search
from tpuc_ops.shapes import positive_axis
from tpuc_ops.top.reduce import Reduce
from tpuc_ops.tpu.permute import Permute as TpuPermute
from tpuc_ops.tpu.reduce import Reduce as TpuReduce
from tpuc_ops.tpu.reshape import Reshape as TpuReshape

from tpuc_bm1684x.lowerings.table import TABLE

_INTEGER_MODES = ("ReduceMean", "ReduceSum", "ReduceMax")


@TABLE.lowers(Reduce, "f32", "int8")
class ReduceAny(Lowering[Reduce]):
    """Neighbouring dimensions as they are; others are brought to the end first.

    int8: maxima pass through; sums and means times Sx / Sy (over the count) as a multiplier and a shift. The other
    modes stay f32.
    """

    def refuse(self, node: LoweringNode) -> str | None:
        return "mode ReduceProd has no kernel" if node.op.mode == "ReduceProd" else None

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        wanted = Wants.MODE if node.op.mode in _INTEGER_MODES else Wants.FLOAT
        return (wanted,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        op: Reduce = node.op
        value = node.operands[0]
        type_ = value.tensor
        axes = sorted({positive_axis(axis, type_.rank) for axis in op.axes})
        result, multiplier, shift = self._result(node, math.prod(type_.dims[axis] for axis in axes))
        if axes == list(range(axes[0], axes[0] + len(axes))):
            tpu = TpuReduce(axes=tuple(axes), mode=op.mode, keepdims=op.keepdims, multiplier=multiplier, rshift=shift)
            return [build(tpu, [value], result)]
        kept = [axis for axis in range(type_.rank) if axis not in axes]
        dims = tuple(type_.dims[axis] for axis in (*kept, *axes))
        value = build(TpuPermute(order=(*kept, *axes)), [value], type_.with_shape(dims), f"{node.name}_permuted")
        tail = tuple(range(len(kept), type_.rank))
        tpu = TpuReduce(axes=tail, mode=op.mode, keepdims=False, multiplier=multiplier, rshift=shift)
        value = build(tpu, [value], result.with_shape(dims[: len(kept)]), f"{node.name}_reduced")
        return [build(TpuReshape(shape=result.dims), [value], result)]

    def _result(self, node: LoweringNode, count: int) -> tuple[TensorType, int, int]:
        """Stored type, multiplier and shift."""
        type_ = node.operands[0].tensor
        if not type_.is_quantised:
            return node.float_result_type(), 1, 0
        if node.op.mode == "ReduceMax":
            return type_.with_shape(node.result_type.dims), 1, 0
        result = node.quantised_result_type()
        factor = type_.uniform.scale / result.uniform.scale
        multiplier, shift = decompose_search(factor / count if node.op.mode == "ReduceMean" else factor, bits=32)
        return result, multiplier, shift
