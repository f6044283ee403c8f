"""Shared data sets come as float NCHW with one label per image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from tests.models.datasets import calibration_set, evaluation_set


def test_mnist_network_is_right_on_198_of_200(mnist_onnx: Path, model_data: Path) -> None:
    session = onnxruntime.InferenceSession(mnist_onnx)
    images, labels = evaluation_set("mnist", model_data)
    right = sum(session.run(None, {"Input3": x[None]})[0].argmax() == y for x, y in zip(images, labels, strict=True))
    assert right == 198


def test_color_images_have_their_channels_in_front(model_data: Path) -> None:
    images, labels = evaluation_set("ic01", model_data)
    assert images.shape == (200, 3, 32, 32)
    assert labels.shape == (200,)
    with np.load(model_data / "data" / "ic01_eval.npz") as data:
        assert images[7, 2, 5, 9] == data["x"][7, 5, 9, 2]
    assert calibration_set("ic01", model_data).dtype == np.float32
