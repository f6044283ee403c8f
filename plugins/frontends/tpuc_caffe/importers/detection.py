"""Boxes: anchors, decoding, and pooling of regions."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array

from tpuc_caffe.importers.common import TABLE, Parameters, check_bottoms, pair, parameters

MOST_PRIORS = 1 << 22
"""Maximum number of priors of a layer; published networks have some thousands."""


@TABLE.imports("PriorBox")
def prior_box(node: ForeignNode, build: ImportBuilder) -> Value:
    """Compute the boxes around every position of the first bottom, and their variances, as constants: shapes are
    static.
    """
    check_bottoms(node, build, 2)
    stated = parameters(node, "prior_box_param")
    sizes = _box_sizes(node, build, stated)
    rows, columns = build.shape(node.inputs[0])[2:]
    height, width = _image_size(stated, build.shape(node.inputs[1]))
    if rows * columns * len(sizes) > MOST_PRIORS:
        raise build.refuse(
            node, f"{rows}x{columns} positions with {len(sizes)} boxes each exceed what a network can use"
        )
    step_h, step_w = pair(stated, "", "step_h", "step_w", stated.get("step", 0))
    offset = stated.get("offset", 0.5)
    y = (np.arange(rows, dtype=np.float32) + np.float32(offset)) * np.float32(step_h or height / rows)
    x = (np.arange(columns, dtype=np.float32) + np.float32(offset)) * np.float32(step_w or width / columns)
    half = np.array(sizes, np.float32) / 2
    boxes = np.empty((rows, columns, len(sizes), 4), np.float32)
    for index, (center, extent, axis) in enumerate(((x, width, 0), (y, height, 1))):
        places = center[None, :, None] if axis == 0 else center[:, None, None]
        boxes[..., index] = (places - half[:, axis]) / np.float32(extent)
        boxes[..., index + 2] = (places + half[:, axis]) / np.float32(extent)
    if stated.get("clip", False):
        boxes = boxes.clip(0, 1)
    variance = _variances(node, build, stated)
    rows_of = [boxes.reshape(-1), np.tile(variance, boxes.size // 4)]
    return build.weight(node.outputs[0], np.stack(rows_of)[None])


def _box_sizes(node: ForeignNode, build: ImportBuilder, stated: Parameters) -> list[tuple[float, float]]:
    """Return width and height of each box at a position, in Caffe's order; Caffe truncates sizes to whole pixels."""
    least = [int(size) for size in stated.get("min_size", ())]
    most = [int(size) for size in stated.get("max_size", ())]
    if not least or min(least) < 1 or len(most) not in (0, len(least)):
        raise build.refuse(node, f"{len(least)} min_size and {len(most)} max_size do not belong together")
    ratios = [1.0]
    for ratio in stated.get("aspect_ratio", ()):
        if not ratio > 0:
            raise build.refuse(node, f"aspect_ratio {ratio:g} is not positive")
        if all(abs(ratio - known) >= 1e-6 for known in ratios):
            ratios += [ratio, 1 / ratio] if stated.get("flip", True) else [ratio]
    sizes: list[tuple[float, float]] = []
    for index, size in enumerate(least):
        sizes.append((size, size))
        if most:
            if most[index] <= size:
                raise build.refuse(node, f"max_size {most[index]} is not above min_size {size}")
            side = math.sqrt(size * most[index])
            sizes.append((side, side))
        sizes += [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios[1:]]
    return sizes


def _image_size(stated: Parameters, image: tuple[int, ...]) -> tuple[int, int]:
    size = stated.get("img_size", 0)
    return stated.get("img_h", size) or image[2], stated.get("img_w", size) or image[3]


def _variances(node: ForeignNode, build: ImportBuilder, stated: Parameters) -> Array:
    variances = stated.get("variance", (0.1,))
    if len(variances) not in (1, 4) or min(variances) <= 0:
        raise build.refuse(node, f"one variance or four, above 0, are needed, these are {list(variances)}")
    return np.array(variances * (4 // len(variances)), np.float32)


@TABLE.imports("DetectionOutput")
def detection_output(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import decoded boxes after non-maximum suppression."""
    check_bottoms(node, build, 3)
    stated = parameters(node, "detection_output_param")
    nms = stated.get("nms_param", {})
    op = top.DetectionOutput(
        num_classes=stated.get("num_classes", 0),
        background_label_id=stated.get("background_label_id", 0),
        nms_threshold=nms.get("nms_threshold", 0.3),
        top_k=nms.get("top_k", -1),
        code_type=stated.get("code_type", "CORNER"),
        keep_top_k=stated.get("keep_top_k", -1),
        confidence_threshold=stated.get("confidence_threshold", -np.finfo(np.float32).max.item()),
        share_location=stated.get("share_location", True),
        variance_encoded_in_target=stated.get("variance_encoded_in_target", False),
        eta=nms.get("eta", 1.0),
    )
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])


@TABLE.imports("ROIPooling")
def roi_pooling(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import maximum pooling of every region on a grid."""
    check_bottoms(node, build, 2)
    stated = parameters(node, "roi_pooling_param")
    op = top.ROIPooling(
        pooled_h=stated.get("pooled_h", 0),
        pooled_w=stated.get("pooled_w", 0),
        spatial_scale=stated.get("spatial_scale", 1.0),
    )
    return build.build(op, [build.value(name) for name in node.inputs], node.outputs[0])
