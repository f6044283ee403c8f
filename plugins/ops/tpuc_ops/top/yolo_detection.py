"""YOLO v3 and v4 detections: decode boxes from feature maps, and suppress overlapping ones of a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, Bool, F64Array, Node, Op, Str, Types

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.boxes import cells, duelled
from tpuc_ops.functions import sigmoid
from tpuc_ops.shapes import show

VERSIONS = ("yolov3", "yolov3_tiny", "yolov3_spp", "yolov4")


@dataclass(frozen=True)
class YoloDetection(Op):
    """Rows (center x, center y, width, height, class, score) as fractions of the image, largest feature map first: `[n,
    1, keep_topk, 6]`; unused rows are zero.

    Operands: feature maps `[n, num_boxes * (5 + class_num), h, w]` in any order. `anchors` are widths and heights in
    pixels of the network's input, those of the largest map first.
    """

    name = "top.YoloDetection"
    net_input_h: I64
    net_input_w: I64
    nms_threshold: F64
    obj_threshold: F64
    keep_topk: I64
    anchors: F64Array
    version: Str
    class_num: I64 = 80
    num_boxes: I64 = 3
    agnostic_nms: Bool = False

    def infer(self, operands: Types) -> Types:
        channels = self.num_boxes * (5 + self.class_num)
        if self.version not in VERSIONS:
            raise ValueError(f"version must be one of {', '.join(VERSIONS)}, this one is {self.version}")
        if any(x.rank != 4 or x.dims[1] != channels or x.dims[0] != operands[0].dims[0] for x in operands):
            shapes = ", ".join(show(x.dims) for x in operands)
            raise ValueError(f"feature maps need {channels} channels and one batch, these are {shapes}")
        if len(self.anchors) != 2 * self.num_boxes * len(operands) or self.keep_topk < 1:
            raise ValueError(f"{len(self.anchors)} anchor numbers do not fit {len(operands)} maps")
        return (operands[0].shape_only().with_shape((operands[0].dims[0], 1, self.keep_topk, 6)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        maps = sorted((as_float(x) for x in operands), key=lambda x: -x.shape[2] * x.shape[3])
        anchors = np.array(self.anchors, np.float32).reshape(len(maps), self.num_boxes, 2)
        result = np.zeros(node.result_type.dims, np.float32)
        for image in range(len(result)):
            rows = np.vstack([self._decoded(x[image], sizes) for x, sizes in zip(maps, anchors, strict=True)])
            rows = rows[self._kept(rows)][: self.keep_topk]
            result[image, 0, : len(rows)] = rows
        return [result]

    def _decoded(self, x: Array, anchors: Array) -> Array:
        """Return the likely boxes of every cell, row by row, each with its best class only."""
        _, height, width = x.shape
        parts = x.reshape(self.num_boxes, 5 + self.class_num, height, width).transpose(2, 3, 0, 1)
        powers = elementary.exp(parts[..., 5:] - parts[..., 5:].max(-1, keepdims=True))
        shares = powers / powers.sum(-1, keepdims=True)
        scores = sigmoid(parts[..., 4]) * shares.max(-1)
        grid = cells(height, width)[:, :, None]
        centers = (sigmoid(parts[..., :2]) + grid) / np.array([width, height], np.float32)
        sizes = elementary.exp(parts[..., 2:4]) * anchors / np.array([self.net_input_w, self.net_input_h], np.float32)
        labels = shares.argmax(-1)[..., None].astype(np.float32)
        rows = np.concatenate([centers, sizes, labels, scores[..., None]], -1)
        return rows[scores > np.float32(self.obj_threshold)]

    def _kept(self, rows: Array) -> Array:
        """Return the indices of the boxes left by suppression, per class or over all."""
        half = rows[:, 2:4] * np.float32(0.5)
        boxes = np.hstack([rows[:, :2] - half, rows[:, :2] + half])
        labels = np.zeros(len(rows)) if self.agnostic_nms else rows[:, 4]
        groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
        kept = [group[duelled(boxes[group], rows[group, 5], self.nms_threshold)] for group in groups]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *kept]))

    def flops(self, node: Node) -> int:
        return 4 * sum(type.size for type in node.operand_types)
