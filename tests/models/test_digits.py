"""The committed digits network is small, has real BatchNormalization nodes and reads digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from tests.models.datasets import calibration_set, evaluation_set


def test_at_least_97_percent_of_the_held_out_digits_are_right(digits_onnx: Path) -> None:
    session = onnxruntime.InferenceSession(digits_onnx)
    images, labels = evaluation_set("digits")
    assert images.shape == (200, 1, 8, 8)
    right = sum(session.run(None, {"image": x[None]})[0].argmax() == y for x, y in zip(images, labels, strict=True))
    assert right >= 194


def test_network_has_batch_normalization_and_fits_200_kilobytes(digits_onnx: Path) -> None:
    model = onnx.load(digits_onnx)
    assert [node.op_type for node in model.graph.node].count("BatchNormalization") == 2
    assert all(node.name for node in model.graph.node)
    assert digits_onnx.stat().st_size <= 200_000


def test_calibration_images_are_none_of_the_evaluation_images() -> None:
    calibration, (evaluation, _) = calibration_set("digits"), evaluation_set("digits")
    assert calibration.shape == (100, 1, 8, 8)
    same = (calibration[:, None] == evaluation[None]).all((2, 3, 4))
    assert not np.any(same)
