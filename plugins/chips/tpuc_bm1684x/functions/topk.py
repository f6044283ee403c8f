"""Top-k values and indices along an axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tpuc.api import HostArgument, Node

from tpuc_bm1684x.layers import LayerFunction

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tpuc_ops import top


class TopKLayer(LayerFunction["top.TopK"]):
    """Layer 17, for rows that the chip cannot rank."""

    function = "topk"
    layer = 17
    results = 2
    integer_results = frozenset({1})
    fields: ClassVar[Mapping[str, str]] = {
        "k": "i",
        "axis": "i",
        "sorted": "?",
        "descending": "?",
        "values_used_only": "?",
    }

    def refuse(self, node: Node[top.TopK]) -> str | None:
        return super().refuse(node) if node.op.largest else "it returns the largest elements, this one the smallest"

    def arguments(self, node: Node[top.TopK]) -> Mapping[str, HostArgument]:
        op, rank = node.op, node.operand_types[0].rank
        return {
            "k": op.K,
            "axis": op.axis % rank,
            "sorted": True,
            "descending": True,
            "values_used_only": False,
        }

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[Any]]:
        import numpy as np

        (x,), axis, count = inputs, int(arguments["axis"]), int(arguments["k"])
        if not 0 <= axis < x.ndim or not 0 < count <= x.shape[axis]:
            raise ValueError(f"{count} of axis {axis}")
        order = np.argsort(-x, axis, kind="stable")
        places = order.take(np.arange(count), axis)
        return [np.take_along_axis(x, places, axis), places.astype(np.int32)]

    def operations(self, inputs: Sequence[int], arguments: Mapping[str, HostArgument], outputs: Sequence[int]) -> int:
        from tpuc_chip_parts.detections import sorting_operations

        return sorting_operations(sum(inputs))


FUNCTION = TopKLayer()
