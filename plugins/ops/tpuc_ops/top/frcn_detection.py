"""Faster R-CNN detections: decode boxes per class and region, and suppress overlapping ones of a class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.boxes import centered_boxes, duelled
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class FrcnDetection(Op):
    """Rows (left, top, right, bottom, class, score) in the order of the regions: `[n, 1, keep_topk, 6]`; unused rows
    are zero.

    Operands: offsets `[n * r, class_num * 4]`, scores `[n * r, class_num]`, regions `[n, 1, r, 5]` (the first number is
    the image). Class 0 is the background.
    """

    name = "top.FrcnDetection"
    class_num: I64
    obj_threshold: F64
    nms_threshold: F64
    keep_topk: I64

    def infer(self, operands: Types) -> Types:
        offsets, scores, regions = operands[:3]
        if regions.rank != 4 or regions.dims[3] != 5 or self.class_num < 2 or self.keep_topk < 1:
            raise ValueError(
                f"regions {show(regions.dims)} must be rows of 5 numbers, with class_num at least 2 and keep_topk "
                "at least 1"
            )
        rows = regions.size // 5
        if offsets.size != rows * self.class_num * 4 or scores.size != rows * self.class_num:
            raise ValueError(
                f"offsets {show(offsets.dims)} and scores {show(scores.dims)} do not fit {rows} regions and "
                f"{self.class_num} classes"
            )
        return (offsets.shape_only().with_shape((regions.dims[0], 1, self.keep_topk, 6)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        offsets, scores, regions = (as_float(operand) for operand in operands[:3])
        images, _, count, _ = regions.shape
        offsets = offsets.reshape(images, count, self.class_num, 4)
        scores = scores.reshape(images, count, self.class_num)
        result = np.zeros(node.result_type.dims, np.float32)
        for image in range(images):
            low, high = regions[image, 0, :, 1:3], regions[image, 0, :, 3:]
            size = (high - low + 1)[:, None]
            boxes = centered_boxes(low[:, None] + size * np.float32(0.5), size, offsets[image])
            rows = self._found(boxes, scores[image])[: self.keep_topk]
            result[image, 0, : len(rows)] = rows
        return [result]

    def _found(self, boxes: Array, scores: Array) -> Array:
        kept = np.zeros(scores.shape, bool)
        for label in range(1, self.class_num):
            likely = np.flatnonzero(scores[:, label] > np.float32(self.obj_threshold))
            kept[likely[duelled(boxes[likely, label], scores[likely, label], self.nms_threshold, 1.0)], label] = True
        regions, labels = np.nonzero(kept)
        return np.hstack([boxes[kept], labels[:, None].astype(np.float32), scores[regions, labels, None]])

    def flops(self, node: Node) -> int:
        return 4 * node.operand_types[0].size
