"""Detections of a single-shot network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuc.api import HostArgument, Node

from tpuc_cv18.functions.common import TopFunction

if TYPE_CHECKING:
    from tpuc_ops import top


class DetectionOutputFunction(TopFunction["top.DetectionOutput"]):
    """`detectionoutput`. Rows that nothing was found for are 0 here, as in TOP; the vendor's runtime fills in -1, and
    gives the rows class by class.
    """

    function = "detectionoutput"

    def refuse(self, node: Node[top.DetectionOutput]) -> str | None:
        op = node.op
        if op.code_type != "CENTER_SIZE":
            return f"it decodes boxes of code_type CENTER_SIZE, these are {op.code_type}"
        if op.background_label_id < 0:
            return "it finds nothing with a background_label_id below 0; num_classes stands for no background as well"
        return super().refuse(node)

    def arguments(self, node: Node[top.DetectionOutput]) -> Mapping[str, HostArgument]:
        # the runtime writes beside its memory with the -1 that stands for all of them
        every = node.operand_types[2].size // 8
        return {**super().arguments(node), "top_k": every if node.op.top_k < 0 else node.op.top_k}

    def definition(self) -> type[top.DetectionOutput]:
        from tpuc_ops import top

        return top.DetectionOutput


FUNCTION = DetectionOutputFunction()
