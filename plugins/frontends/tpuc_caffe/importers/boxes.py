"""Final layers of detectors from forks of Caffe: regions, faces, and objects from feature maps."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops import top
from tpuc_ops.top.proposal import RATIOS, SCALES

from tpuc_caffe.importers.common import TABLE, Parameters, check_bottoms, parameters

_SMALL, _MIDDLE, _LARGE = (10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326)
_V3 = (*_SMALL, *_MIDDLE, *_LARGE)
_V4 = (12, 16, 19, 36, 40, 28, 36, 75, 76, 55, 72, 146, 142, 110, 192, 243, 459, 401)
_TINY = (10, 14, 23, 27, 37, 58, 81, 82, 135, 169, 344, 319)
"""Published anchor widths and heights, those of the largest feature map first."""


@TABLE.imports("Proposal")
def proposal(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a Proposal with two bottoms. A third bottom, the image size, is ignored, as shapes are static."""
    if len(node.inputs) not in (2, 3):
        raise build.refuse(node, f"needs 2 or 3 bottoms, but has {len(node.inputs)}")
    stated = parameters(node, "proposal_param")
    for name, fixed in (("ratio", RATIOS), ("scale", SCALES)):
        given = tuple(float(number) for number in stated.get(name, ())) or fixed
        if given != fixed:
            raise build.refuse(
                node,
                f"only anchors with the {name}s {_listed(fixed)} are supported, this layer states {_listed(given)}",
            )
    for name in ("min_size", "pre_nms_topn"):
        if stated.get(name, 0):
            raise build.refuse(node, f"{name} is not supported: all boxes above rpn_obj_threshold count")
    base = _number(node, build, stated, "anchor_base_size", stated.get("base_size", 16))
    op = top.Proposal(
        net_input_h=_number(node, build, stated, "net_input_h"),
        net_input_w=_number(node, build, stated, "net_input_w"),
        feat_stride=_number(node, build, stated, "feat_stride", 16),
        anchor_base_size=base,
        rpn_obj_threshold=float(stated.get("rpn_obj_threshold", 0.3)),
        rpn_nms_threshold=float(stated.get("rpn_nms_threshold", stated.get("nms_thresh", 0.7))),
        rpn_nms_post_top_n=_number(node, build, stated, "rpn_nms_post_top_n", stated.get("post_nms_topn", 300)),
    )
    return build.build(op, [build.value(name) for name in node.inputs[:2]], node.outputs[0])


@TABLE.imports("FrcnDetection")
def frcn_detection(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import an FrcnDetection of offsets, scores, and regions."""
    check_bottoms(node, build, 3)
    stated = parameters(node, "frcn_detection_param")
    op = top.FrcnDetection(
        class_num=_number(node, build, stated, "class_num"),
        obj_threshold=float(stated.get("obj_threshold", 0.0)),
        nms_threshold=float(stated.get("nms_threshold", 0.0)),
        keep_topk=_number(node, build, stated, "keep_topk"),
    )
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


@TABLE.imports("RetinaFaceDetection")
def retina_face_detection(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a RetinaFaceDetection with three bottoms for each of three strides."""
    check_bottoms(node, build, 9)
    stated = parameters(node, "retinaface_detection_param")
    op = top.RetinaFaceDetection(
        nms_threshold=float(stated.get("nms_threshold", 0.0)),
        confidence_threshold=float(stated.get("confidence_threshold", 0.0)),
        keep_topk=_number(node, build, stated, "keep_topk"),
    )
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


@TABLE.imports("YoloDetection")
def yolo_detection(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a YoloDetection of two or three feature maps; default anchors depend on the kind of network."""
    stated = parameters(node, "yolo_detection_param")
    kinds = [kind for kind in ("spp_net", "tiny", "yolo_v4") if stated.get(kind, False)]
    version = {"spp_net": "yolov3_spp", "tiny": "yolov3_tiny", "yolo_v4": "yolov4"}.get((kinds or [""])[0], "yolov3")
    anchors = _anchors(node, build, stated, version)
    if len(anchors) != 6 * len(node.inputs):
        raise build.refuse(
            node, f"{len(anchors) // 2} anchors do not fit {len(node.inputs)} bottoms of 3 anchors each: state anchors"
        )
    op = top.YoloDetection(
        net_input_h=_number(node, build, stated, "net_input_h"),
        net_input_w=_number(node, build, stated, "net_input_w"),
        nms_threshold=float(stated.get("nms_threshold", 0.0)),
        obj_threshold=float(stated.get("obj_threshold", 0.0)),
        keep_topk=_number(node, build, stated, "keep_topk"),
        anchors=tuple(map(float, anchors)),
        version=version,
        class_num=_number(node, build, stated, "class_num", 80),
    )
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


def _anchors(node: ForeignNode, build: ImportBuilder, stated: Parameters, version: str) -> Sequence[int]:
    text = stated.get("anchors", "")
    if not text:
        return {"yolov4": _V4, "yolov3_tiny": _TINY}.get(version, _V3)
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise build.refuse(node, f"its anchors '{text}' are not comma-separated integers") from None


def _number(
    node: ForeignNode, build: ImportBuilder, stated: Parameters, name: str, otherwise: int | None = None
) -> int:
    """Return a positive integer parameter."""
    value = stated.get(name, otherwise)
    if value is None or value < 1:
        raise build.refuse(node, f"its {name} is {'missing' if value is None else value}, but must be positive")
    return int(value)


def _listed(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:g}" for number in numbers)
