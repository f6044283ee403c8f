"""Our own preprocessing of image files gives the reference accuracies that come with the labeled images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from tpuc.ir.preprocess import Preprocess
from tpuc_images.images import read_image


@pytest.mark.parametrize(("size", "top1", "top5", "file"), [(128, 34, 49, "mobilenet_v1_0.25_128_bn.onnx")])
def test_short_side_scaled_and_center_cropped(size: int, top1: int, top5: int, file: str, model_data: Path) -> None:
    short = round(size * 256 / 224)
    said = Preprocess((127.5,), (1 / 127.5,), "rgb", (short, short), True, keep_ratio_mode="short_side_scale")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model_data / "onnx" / file), options, ["CPUExecutionProvider"])
    folder = model_data / "data" / "imagenet_eval"
    rows = [line.split("\t") for line in (folder / "labels.tsv").read_text().splitlines()]
    labeled = [(folder / row[0], int(row[1])) for row in rows if row[1].isdigit()]
    first = fifth = 0
    for path, label in labeled:
        (scores,) = session.run(None, {session.get_inputs()[0].name: read_image(path, said, (1, 3, size, size))})
        best = np.argsort(-scores.reshape(-1))[:5]
        first += int(best[0] == label)
        fifth += int(label in best)
    assert (len(labeled), first, fifth) == (60, top1, top5)


def test_a_face_fills_a_stretched_portrait(model_data: Path) -> None:
    """ultraface: 250x250 portraits stretched to 240x320."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    path = model_data / "onnx" / "ultraface_slim_320.onnx"
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    said = Preprocess((127,), (1 / 128,), "rgb")
    wanted = np.array([72, 72, 178, 190])
    hits = 0
    for image in sorted((model_data / "data" / "lfw").glob("*.jpg")):
        scores, boxes = session.run(None, {session.get_inputs()[0].name: read_image(image, said, (1, 3, 240, 320))})
        best = int(scores[0, :, 1].argmax())
        box = boxes[0, best] * 250
        low, high = np.maximum(box[:2], wanted[:2]), np.minimum(box[2:], wanted[2:])
        shared = float(np.prod(np.clip(high - low, 0, None)))
        union = float(np.prod(box[2:] - box[:2]) + np.prod(wanted[2:] - wanted[:2])) - shared
        hits += int(scores[0, best, 1] > 0.5 and shared / union >= 0.4)
    assert hits == 40
