"""Embedding lookup: rows of a table by computed indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuc.api import BF16, CpuFunction, HostArgument, Node, UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top


class EmbeddingFunction(CpuFunction["top.Gather"]):
    """`embedding`: gather the rows of a matrix by index, counted from 0."""

    function = "embedding"
    is_usual = True
    storage = BF16
    index_inputs = frozenset({1})
    order = (1, 0)

    def refuse(self, node: Node[top.Gather]) -> str | None:
        table, axis = node.operand_types[0], node.op.axis
        if axis % table.rank:
            return f"it gathers along the first dimension, this is dimension {axis % table.rank}"
        return None

    def stored(self, array: NDArray[Any]) -> NDArray[Any]:
        from tpuc_cv18.lowerings.common import as_bf16

        return as_bf16(array)

    def shapes(self, node: Node[top.Gather]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        table = node.operand_types[0].dims
        rows, width = table[0], node.operand_types[0].size // table[0]
        count = node.operand_types[1].size
        return [(1, count, 1, 1), (rows, width, 1, 1)], [(1, count, width, 1)]

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        indices, table = inputs
        places = indices.reshape(-1)
        if places.size and not 0 <= places.min() <= places.max() < len(table):
            wrong = places.min() if places.min() < 0 else places.max()
            raise UsageError(f"there is no row {wrong} in a table of {len(table)}; indices start at 0")
        return [table[places].reshape(outputs[0])]


FUNCTION = EmbeddingFunction()
