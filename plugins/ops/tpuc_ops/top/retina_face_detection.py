"""RetinaFace detections: decode boxes and landmarks from three feature maps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, Node, Op, Types

from tpuc_ops import elementary
from tpuc_ops.arrays import Array, as_float
from tpuc_ops.boxes import cells, suppressed
from tpuc_ops.shapes import show

STRIDES = (32, 16, 8)
"""Pixels between adjacent positions of each feature map."""

SCALES = ((32, 16), (8, 4), (2, 1))
"""Published scales of the two anchors at each position of these maps."""

BASE = 17
"""Side in pixels of an anchor of scale 1: it spans 0 to 16, so its center is half of that from the cell's corner."""


@dataclass(frozen=True)
class RetinaFaceDetection(Op):
    """Rows (left, top, right, bottom, score, five points) in pixels of the network's input, best first: `[n, 1,
    keep_topk, 15]`; unused rows are zero.

    Operands: for each of the strides 32, 16, 8, the probabilities of two anchors (background, then face) `[n, 4, h,
    w]`, the offsets of boxes `[n, 8, h, w]`, and those of points `[n, 20, h, w]`.
    """

    name = "top.RetinaFaceDetection"
    nms_threshold: F64
    confidence_threshold: F64
    keep_topk: I64

    def infer(self, operands: Types) -> Types:
        if len(operands) != 3 * len(STRIDES) or self.keep_topk < 1:
            raise ValueError(
                f"nine operands and a keep_topk of at least 1 are needed, there are {len(operands)} operands"
            )
        for index, x in enumerate(operands):
            grid = operands[index - index % 3].dims
            wanted = (operands[0].dims[0], (4, 8, 20)[index % 3], *grid[2:])
            if x.rank != 4 or x.dims != wanted:
                raise ValueError(f"operand {index} {show(x.dims)} should be {show(wanted)}")
        return (operands[0].shape_only().with_shape((operands[0].dims[0], 1, self.keep_topk, 15)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        result = np.zeros(node.result_type.dims, np.float32)
        parts = [as_float(operand) for operand in operands]
        for image in range(len(result)):
            levels = [
                _decoded([part[image] for part in parts[3 * level : 3 * level + 3]], stride, SCALES[level])
                for level, stride in enumerate(STRIDES)
            ]
            rows = np.vstack(levels)
            # Pixels count whole: a box from 0 to 0 is one pixel wide.
            whole = rows[:, :4] + np.array([0, 0, 1, 1], np.float32)
            kept = suppressed(whole, rows[:, 4], self.confidence_threshold, self.nms_threshold, -1)
            kept = kept[: self.keep_topk]
            result[image, 0, : len(kept)] = rows[kept]
        return [result]

    def flops(self, node: Node) -> int:
        return 4 * sum(type.size for type in node.operand_types)


def _decoded(parts: Sequence[Array], stride: int, scales: Sequence[int]) -> Array:
    """Return the rows of one level, anchor by anchor."""
    scores, offsets, points = parts
    _, height, width = scores.shape
    centers = (cells(height, width) * stride + np.float32(BASE / 2)).reshape(-1, 2)
    rows: list[Array] = []
    for anchor, scale in enumerate(scales):
        size = np.float32(BASE * scale + 1)
        moves = offsets[4 * anchor : 4 * anchor + 4].reshape(4, -1).T
        middle, half = moves[:, :2] * size + centers, (elementary.exp(moves[:, 2:]) * size - 1) * np.float32(0.5)
        marks = points[10 * anchor : 10 * anchor + 10].reshape(10, -1).T * size + np.tile(centers, 5)
        faces = scores[len(scales) + anchor].reshape(-1, 1)
        rows.append(np.hstack([middle - half, middle + half, faces, marks]))
    return np.vstack(rows)
