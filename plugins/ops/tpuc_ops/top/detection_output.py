"""SSD detections: decode boxes and suppress overlapping ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import F64, I64, Bool, Node, Op, Str, Types

from tpuc_ops.arrays import Array, as_float
from tpuc_ops.attributes import FloatFlag
from tpuc_ops.boxes import CODES, decoded, suppressed
from tpuc_ops.shapes import show


@dataclass(frozen=True)
class DetectionOutput(Op):
    """Rows (image, class, score, left, top, right, bottom), best first per image: `[n, 1, keep_top_k, 7]`; unused rows
    are zero.

    Operands: offsets `[n, p * 4]` (per class too without `share_location`), scores `[n, p * num_classes]`, priors `[1,
    2, p * 4]` (boxes and their variances).
    """

    name = "top.DetectionOutput"
    num_classes: I64
    nms_threshold: F64
    top_k: I64
    code_type: Str
    keep_top_k: I64
    confidence_threshold: F64
    background_label_id: I64 = 0
    share_location: Bool = True
    variance_encoded_in_target: FloatFlag = False
    eta: F64 = 1.0

    def infer(self, operands: Types) -> Types:
        offsets, scores, priors = operands
        count = priors.size // 8
        if self.code_type not in CODES:
            raise ValueError(f"code_type must be one of {', '.join(CODES)}, this one is {self.code_type}")
        if self.keep_top_k < 1 or self.num_classes < 1:
            raise ValueError("num_classes and keep_top_k must be stated: the number of results is static")
        classes = 1 if self.share_location else self.num_classes
        images = offsets.dims[0]
        if offsets.size != images * count * 4 * classes or scores.size != images * count * self.num_classes:
            raise ValueError(
                f"offsets {show(offsets.dims)} and scores {show(scores.dims)} do not fit {count} priors and "
                f"{self.num_classes} classes"
            )
        return (offsets.shape_only().with_shape((images, 1, self.keep_top_k, 7)),)

    def evaluate(self, node: Node, operands: Sequence[Array]) -> Sequence[Array]:
        offsets, scores, priors = (as_float(operand) for operand in operands)
        boxes, variances = priors.reshape(2, -1, 4)
        result = np.zeros(node.result_type.dims, np.float32)
        offsets = offsets.reshape(result.shape[0], len(boxes), -1, 4)
        scores = scores.reshape(result.shape[0], len(boxes), self.num_classes)
        for image, rows in enumerate(result[:, 0]):
            places = decoded(
                offsets[image], boxes, None if self.variance_encoded_in_target else variances, self.code_type
            )
            found = self._found(places, scores[image])
            rows[: len(found), 0] = image
            rows[: len(found), 1:] = found
        return [result]

    def _found(self, places: Array, scores: Array) -> Array:
        """Return the rows (class, score, box) of one image, best first."""
        rows: list[Array] = [np.zeros((0, 6), np.float32)]
        for label in range(self.num_classes):
            if label == self.background_label_id:
                continue
            boxes = places[:, 0 if self.share_location else label]
            kept = suppressed(
                boxes, scores[:, label], self.confidence_threshold, self.nms_threshold, self.top_k, self.eta
            )
            labels = np.full((len(kept), 1), label, np.float32)
            rows.append(np.hstack([labels, scores[kept, label, None], boxes[kept]]))
        every = np.vstack(rows)
        return every[np.argsort(-every[:, 1], kind="stable")[: self.keep_top_k]]

    def flops(self, node: Node) -> int:
        return 20 * node.operand_types[2].size
