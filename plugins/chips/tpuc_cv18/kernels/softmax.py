"""Softmax in the runtime."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tpuc.api import F32, CpuRoutine, HostArgument, Node
from tpuc_ops import tpu
from tpuc_ops.shapes import positive_axis


class SoftmaxRoutine(CpuRoutine[tpu.Softmax]):
    """Softmax in float32 over the middle one of three dimensions."""

    function = "softmax"

    def refuse(self, node: Node[tpu.Softmax]) -> str | None:
        if node.op.log or node.op.beta != 1.0:
            return "beta 1 and no logarithm"
        if node.operand_types[0].storage != F32 or node.result_type.storage != F32:
            return "f32 operand and result, the runtime takes no others"
        return None

    def arguments(self, node: Node) -> Mapping[str, HostArgument]:
        return {"axis": 1}

    def shapes(self, node: Node) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        dims = node.result_type.dims
        axis = positive_axis(node.op.axis, len(dims))
        shape = (math.prod(dims[:axis]), dims[axis], math.prod(dims[axis + 1 :]), 1)
        return [shape] * len(node.operand_types), [shape]
