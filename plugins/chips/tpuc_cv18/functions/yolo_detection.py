"""YOLO v3 and v4 detections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tpuc.api import F32, CpuFunction, HostArgument, Node, TensorType, Unsupported

from tpuc_cv18.functions.common import rank_refusal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from tpuc_ops import top

BOXES = 3
"""Boxes per cell."""
LIKELY_BOXES = 200
"""Capacity of the runtime for candidate boxes of one image before non-maximum suppression; it aborts beyond."""
_KINDS = {"tiny": "yolov3_tiny", "yolo_v4": "yolov4", "spp_net": "yolov3_spp"}
"""Flags of the runtime, and the YOLO version that each one selects."""
_OWN = ("net_input_h", "net_input_w", "nms_threshold", "obj_threshold", "keep_topk", "class_num")


class YoloDetectionFunction(CpuFunction["top.YoloDetection"]):
    """`yolo_detection`: the anchors are passed as text."""

    function = "yolo_detection"

    def refuse(self, node: Node[top.YoloDetection]) -> str | None:
        op, maps = node.op, len(node.operand_types)
        expected = 2 if op.version == "yolov3_tiny" else 3
        if maps != expected:
            return f"it takes {expected} feature maps of a {op.version}, there are {maps}"
        if op.num_boxes != BOXES:
            return f"it takes {BOXES} boxes per cell, there are {op.num_boxes}"
        if op.agnostic_nms:
            return "it suppresses boxes within a class, this one across classes"
        return rank_refusal(node)

    def arguments(self, node: Node[top.YoloDetection]) -> Mapping[str, HostArgument]:
        op = node.op
        flags = {flag: op.version == version for flag, version in _KINDS.items()}
        return {name: getattr(op, name) for name in _OWN} | flags | {"anchors": ",".join(f"{x:g}" for x in op.anchors)}

    def run(
        self, inputs: Sequence[NDArray[Any]], arguments: Mapping[str, HostArgument], outputs: Sequence[tuple[int, ...]]
    ) -> Sequence[NDArray[np.float32]]:
        from tpuc_ops import top

        op = top.YoloDetection(
            net_input_h=int(arguments["net_input_h"]),
            net_input_w=int(arguments["net_input_w"]),
            nms_threshold=float(arguments["nms_threshold"]),
            obj_threshold=float(arguments["obj_threshold"]),
            keep_topk=int(arguments["keep_topk"]),
            anchors=tuple(map(float, str(arguments["anchors"]).split(","))),
            version=next((version for flag, version in _KINDS.items() if arguments[flag]), "yolov3"),
            class_num=int(arguments["class_num"]),
        )
        types = tuple(TensorType(x.shape, F32) for x in inputs)
        (result,) = op.infer(types)
        if result.dims != tuple(outputs[0]):
            raise ValueError("results have different extents")
        all_likely = replace(op, nms_threshold=1.0, keep_topk=LIKELY_BOXES + 1)
        (likely,) = all_likely.evaluate(Node(all_likely, types, all_likely.infer(types), self.function), inputs)
        if likely[:, 0, -1].any():
            raise Unsupported(
                f"'{self.function}' of the runtime fails when more than {LIKELY_BOXES} boxes of an image score above "
                f"{op.obj_threshold:g}; raise obj_threshold"
            )
        return op.evaluate(Node(op, types, (result,), self.function), inputs)


FUNCTION = YoloDetectionFunction()
