"""SSD detection output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpuc.api import HostArgument, Node

from tpuc_cv18.functions.common import TopFunction

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top


class DetectionOutputFunction(TopFunction["top.DetectionOutput"]):
    """`detectionoutput`: the rows of all images are consecutive, by class, followed by rows of -1."""

    function = "detectionoutput"

    def refuse(self, node: Node[top.DetectionOutput]) -> str | None:
        op = node.op
        if op.code_type != "CENTER_SIZE":
            return f"it decodes boxes of code_type CENTER_SIZE, these are {op.code_type}"
        if op.background_label_id < 0:
            return "it finds nothing with a background_label_id below 0; use num_classes for no background"
        return super().refuse(node)

    def arguments(self, node: Node[top.DetectionOutput]) -> Mapping[str, HostArgument]:
        # with -1, which means all, the runtime writes outside its memory
        every = node.operand_types[2].size // 8
        return {**super().arguments(node), "top_k": every if node.op.top_k < 0 else node.op.top_k}

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        from tpuc_chip_parts.detections import without_gaps

        (rows,) = super().run(inputs, arguments, outputs)
        return [without_gaps(rows, -1)]

    def definition(self) -> type[top.DetectionOutput]:
        from tpuc_ops import top

        return top.DetectionOutput

    def operations(self, inputs: Sequence[int], arguments: Mapping[str, HostArgument], outputs: Sequence[int]) -> int:
        from tpuc_chip_parts.detections import detection_operations

        return detection_operations(inputs, arguments)


FUNCTION = DetectionOutputFunction()
