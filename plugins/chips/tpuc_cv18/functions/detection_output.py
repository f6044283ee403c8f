"""Detections of a single-shot network."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuc_cv18.functions.common import TopFunction

if TYPE_CHECKING:
    from tpuc_ops import top


class DetectionOutputFunction(TopFunction["top.DetectionOutput"]):
    """`detectionoutput`. Rows that nothing was found for are 0 here, as in TOP; the vendor's runtime fills in -1."""

    function = "detectionoutput"

    def definition(self) -> type[top.DetectionOutput]:
        from tpuc_ops import top

        return top.DetectionOutput


FUNCTION = DetectionOutputFunction()
