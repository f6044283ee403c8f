"""Regions of interest of a region proposal network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, Node, Op, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.boxes import cells, centered_boxes, duelled, pixel_anchors
from tpuc_ops.shapes import show

RATIOS, SCALES = (0.5, 1.0, 2.0), (8.0, 16.0, 32.0)
"""Published anchors of Faster R-CNN: ratio of height to width, and of side to `anchor_base_size`."""

ANCHORS = len(RATIOS) * len(SCALES)


@dataclass(frozen=True)
class Proposal(Op):
    """Rows (image, left, top, right, bottom) in pixels of the network's input, in the order of the anchors: `[n, 1, m,
    5]` with m = `rpn_nms_post_top_n`; unused rows are zero.

    Operands: probabilities of background, then of objects, for nine anchors `[n, 18, h, w]`, and their offsets `[n, 36,
    h, w]`. Anchors have the ratios 1/2, 1, 2 and the scales 8, 16, 32.
    """

    name = "top.Proposal"
    net_input_h: I64
    net_input_w: I64
    feat_stride: I64
    anchor_base_size: I64
    rpn_obj_threshold: F64
    rpn_nms_threshold: F64
    rpn_nms_post_top_n: I64

    def infer(self, operands: Types) -> Types:
        scores, offsets = operands[:2]
        if scores.rank != 4 or scores.dims[1] != 2 * ANCHORS or self.rpn_nms_post_top_n < 1:
            raise ValueError(
                f"scores {show(scores.dims)} must have {2 * ANCHORS} channels, and rpn_nms_post_top_n be at least 1"
            )
        if offsets.dims != (scores.dims[0], 4 * ANCHORS, *scores.dims[2:]):
            raise ValueError(f"offsets {show(offsets.dims)} do not fit scores {show(scores.dims)}")
        return (scores.shape_only().with_shape((scores.dims[0], 1, self.rpn_nms_post_top_n, 5)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        scores, offsets = (as_float(operand) for operand in operands[:2])
        images, _, rows, columns = scores.shape
        anchors = pixel_anchors(float(self.anchor_base_size), RATIOS, SCALES)
        size = anchors[:, 2:] - anchors[:, :2] + 1
        middle = anchors[:, :2] + np.float32(0.5) * (size - 1)
        places = cells(rows, columns) * self.feat_stride
        centers = middle[:, None, None] + places
        sizes = np.broadcast_to(size[:, None, None], centers.shape)
        limit = np.array([self.net_input_w - 1, self.net_input_h - 1] * 2, np.float32)
        result = np.zeros(node.result_type.dims, np.float32)
        for image in range(images):
            values = scores[image, ANCHORS:].reshape(-1)
            moves = offsets[image].reshape(ANCHORS, 4, rows, columns).transpose(0, 2, 3, 1)
            boxes = centered_boxes(centers, sizes, moves).reshape(-1, 4).clip(0, limit)
            likely = np.flatnonzero(values >= np.float32(self.rpn_obj_threshold))
            kept = likely[duelled(boxes[likely], values[likely], self.rpn_nms_threshold, 1.0)]
            kept = kept[: self.rpn_nms_post_top_n]
            result[image, 0, : len(kept), 0] = image
            result[image, 0, : len(kept), 1:] = boxes[kept]
        return [result]

    def flops(self, node: Node) -> int:
        return 4 * node.operand_types[1].size
