"""RetinaFace detections with landmarks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuc_cv18.functions.common import TopFunction

if TYPE_CHECKING:
    from tpuc_ops import top


class RetinaFaceDetectionFunction(TopFunction["top.RetinaFaceDetection"]):
    """`retinaface_detection`: as its op defines it."""

    function = "retinaface_detection"

    def definition(self) -> type[top.RetinaFaceDetection]:
        from tpuc_ops import top

        return top.RetinaFaceDetection


FUNCTION = RetinaFaceDetectionFunction()
