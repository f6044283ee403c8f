"""The end of a single-shot detector, which processors compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tpuc.api import Module

from tests.frontends.caffe.files import Array, inputs, layer, read


def read_detections(
    folder: Path,
    code: str = "CENTER_SIZE",
    threshold: float = 0.5,
    images: int = 1,
    *,
    shared: bool = True,
    behind: str = "",
) -> tuple[Module, dict[str, Array]]:
    """The end of a single-shot network of 3 classes and 30 boxes, with its operands."""
    random = np.random.default_rng(0)
    centers, sizes = random.uniform(0.1, 0.9, (30, 2)), random.uniform(0.05, 0.4, (30, 2))
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], 1).reshape(-1)
    operands = {
        "l": random.normal(0, 0.5, (images, 120 if shared else 360)).astype(np.float32),
        "s": random.uniform(0, 1, (images, 90)).astype(np.float32),
        "p": np.stack([boxes, np.tile([0.1, 0.1, 0.2, 0.2], 30)])[None].astype(np.float32),
    }
    body = (
        f"detection_output_param {{ num_classes: 3 code_type: {code} keep_top_k: 10 confidence_threshold: {threshold} "
        f"share_location: {str(shared).lower()} nms_param {{ nms_threshold: 0.45 top_k: 20 }} }}"
    )
    shapes = {name: array.shape for name, array in operands.items()}
    return read(inputs(**shapes) + layer("DetectionOutput", body, "l s p") + behind, folder), operands
