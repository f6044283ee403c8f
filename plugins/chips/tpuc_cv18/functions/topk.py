"""Top-k values along the last axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuc.api import CpuFunction, HostArgument, Node

from tpuc_cv18.functions.common import four, rank_refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top


class TopKFunction(CpuFunction["top.TopK"]):
    """`topk`: the values, best first. It does not write an indices tensor."""

    function = "topk"

    results = 1

    def refuse(self, node: Node[top.TopK]) -> str | None:
        op, rank = node.op, node.operand_types[0].rank
        if op.axis % rank != rank - 1:
            return f"it sorts along the last dimension, this is dimension {op.axis % rank} of {rank}"
        return rank_refusal(node)

    def arguments(self, node: Node[top.TopK]) -> Mapping[str, HostArgument]:
        op, rank = node.op, node.operand_types[0].rank
        return {"K": op.K, "axis": op.axis % rank, "largest": op.largest, "sorted": True}

    def shapes(self, node: Node[top.TopK]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        return [four(node.operand_types[0].dims)], [four(node.result_types[0].dims)]

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        import numpy as np

        (x,), axis, count = inputs, int(arguments["axis"]), int(arguments["K"])
        if not 0 <= axis < x.ndim or not 0 < count <= x.shape[axis]:
            raise ValueError(f"{count} of axis {axis}")
        ordered = np.sort(x, axis)
        return [(np.flip(ordered, axis) if arguments["largest"] else ordered).take(np.arange(count), axis)]

    def operations(self, inputs: Sequence[int], arguments: Mapping[str, HostArgument], outputs: Sequence[int]) -> int:
        from tpuc_chip_parts.detections import sorting_operations

        return sorting_operations(sum(inputs))


FUNCTION = TopKFunction()
