"""ROI max pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tpuc.api import HostArgument, Node

from tpuc_bm1684x.layers import EvaluatedLayer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top


class ROIPoolingLayer(EvaluatedLayer["top.ROIPooling"]):
    """Layer 4. Empty bins get the lowest float32 number; the TOP op defines them as 0."""

    function = "roi_pooling"
    layer = 4
    fields: ClassVar[Mapping[str, str]] = {"pooled_height": "i", "pooled_width": "i", "spatial_scale": "f"}

    def arguments(self, node: Node[top.ROIPooling]) -> Mapping[str, HostArgument]:
        op = node.op
        return {"pooled_height": op.pooled_h, "pooled_width": op.pooled_w, "spatial_scale": op.spatial_scale}

    def shapes(self, node: Node[top.ROIPooling]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        x, regions = node.operand_types
        return [x.dims, (regions.dims[0], 5, 1, 1)], [node.result_type.dims]

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        import numpy as np

        x, regions = inputs[0], inputs[1].reshape(-1, 5)
        (pooled,) = super().run([x, regions], arguments, outputs)
        (filled,) = super().run([np.ones_like(x), regions], arguments, outputs)
        return [np.where(filled > 0, pooled, np.finfo(np.float32).min)]

    def op(self, arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]) -> top.ROIPooling:
        from tpuc_ops import top

        return top.ROIPooling(
            int(arguments["pooled_height"]), int(arguments["pooled_width"]), float(arguments["spatial_scale"])
        )


FUNCTION = ROIPoolingLayer()
