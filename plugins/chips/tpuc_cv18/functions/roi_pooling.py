"""ROI max pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuc.api import HostArgument, Node

from tpuc_cv18.functions.common import TopFunction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top


class ROIPoolingFunction(TopFunction["top.ROIPooling"]):
    """`roi_pooling`: maxima start at 0, so a bin with only negative values gives 0."""

    function = "roi_pooling"

    def refuse(self, node: Node[top.ROIPooling]) -> str | None:
        images = node.operand_types[0].dims[0]
        return f"it takes regions of one image, there are {images}" if images > 1 else super().refuse(node)

    def shapes(self, node: Node[top.ROIPooling]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        x, regions = node.operand_types
        return [x.dims, (1, 1, regions.dims[0], 5)], [node.result_type.dims]

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        x, regions = inputs
        (pooled,) = super().run([x, regions.reshape(-1, 5)], arguments, outputs)
        return [pooled.clip(0)]

    def definition(self) -> type[top.ROIPooling]:
        from tpuc_ops import top

        return top.ROIPooling


FUNCTION = ROIPoolingFunction()
