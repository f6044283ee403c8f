"""GatherND: slices at multi-dimensional indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuc.api import CpuFunction, HostArgument, Node

from tpuc_cv18.functions.common import four, rank_refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top


class GatherNDFunction(CpuFunction["top.GatherND"]):
    """`gathernd_tf`: the indices are constants and count from the start."""

    function = "gathernd_tf"
    integers = frozenset({1})

    def refuse(self, node: Node[top.GatherND]) -> str | None:
        return rank_refusal(node)

    def arguments(self, node: Node[top.GatherND]) -> Mapping[str, HostArgument]:
        return {"batch_dims": node.op.batch_dims, "indice_dims": node.operand_types[1].rank}

    def shapes(self, node: Node[top.GatherND]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        return [four(type_.dims) for type_ in node.operand_types], [four(node.result_types[0].dims)]

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        import numpy as np
        from tpuc.api import F32, TensorType
        from tpuc_ops import top

        x, indices = inputs
        rows = indices.reshape(indices.shape[: int(arguments["indice_dims"])])
        op = top.GatherND(batch_dims=int(arguments["batch_dims"]))
        types = (TensorType(x.shape, F32), TensorType(rows.shape, F32))
        (result,) = op.infer(types)
        (gathered,) = op.evaluate(Node(op, types, (result,), self.function), [x, rows])
        return [np.asarray(gathered, np.float32).reshape(outputs[0])]


FUNCTION = GatherNDFunction()
