"""SSD detection output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tpuc.api import HostArgument, Node

from tpuc_bm1684x.layers import EvaluatedLayer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top

CODES = {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3}
"""Numbers of the box encodings."""


class DetectionOutputLayer(EvaluatedLayer["top.DetectionOutput"]):
    """Layer 0. The rows of all images are consecutive, by class and descending score. When no image has a detection,
    there is one row (image, -1, ...) per image.
    """

    function = "ssd_detection_output"
    layer = 0
    is_partial = True
    fields: ClassVar[Mapping[str, str]] = {
        "num_classes": "i",
        "share_location": "?",
        "background_label_id": "i",
        "nms_threshold": "f",
        "top_k": "i",
        "code_type": "i",
        "keep_top_k": "i",
        "confidence_threshold": "f",
        "num_priors": "i",
        "num_loc_classes": "i",
        "variance_encoded_in_target": "?",
        "eta": "f",
        "objectness_score": "f",
    }

    def refuse(self, node: Node[top.DetectionOutput]) -> str | None:
        if not node.op.share_location:
            return "it decodes boxes shared by all classes, this one has boxes per class"
        return super().refuse(node)

    def arguments(self, node: Node[top.DetectionOutput]) -> Mapping[str, HostArgument]:
        op = node.op
        return {
            "num_classes": op.num_classes,
            "share_location": op.share_location,
            "background_label_id": op.background_label_id,
            "nms_threshold": op.nms_threshold,
            "top_k": op.top_k,
            "code_type": CODES[op.code_type],
            "keep_top_k": op.keep_top_k,
            "confidence_threshold": op.confidence_threshold,
            "num_priors": node.operand_types[2].size // 8,
            "num_loc_classes": 1 if op.share_location else op.num_classes,
            "variance_encoded_in_target": op.variance_encoded_in_target,
            "eta": op.eta,
            "objectness_score": 0.0,
        }

    def op(self, arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]) -> top.DetectionOutput:
        from tpuc_ops import top

        codes = {number: code for code, number in CODES.items()}
        return top.DetectionOutput(
            num_classes=int(arguments["num_classes"]),
            nms_threshold=float(arguments["nms_threshold"]),
            top_k=int(arguments["top_k"]),
            code_type=codes[int(arguments["code_type"])],
            keep_top_k=int(arguments["keep_top_k"]),
            confidence_threshold=float(arguments["confidence_threshold"]),
            background_label_id=int(arguments["background_label_id"]),
            share_location=bool(arguments["share_location"]),
            variance_encoded_in_target=bool(arguments["variance_encoded_in_target"]),
            eta=float(arguments["eta"]),
        )

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        import numpy as np
        from tpuc_chip_parts.detections import without_gaps

        (rows,) = super().run(inputs, arguments, outputs)
        return [without_gaps(np.asarray(rows, np.float32), 0)]

    def operations(self, inputs: Sequence[int], arguments: Mapping[str, HostArgument], outputs: Sequence[int]) -> int:
        from tpuc_chip_parts.detections import detection_operations

        return detection_operations(inputs, arguments)


FUNCTION = DetectionOutputLayer()
