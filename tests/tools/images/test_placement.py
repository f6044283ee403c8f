"""Where an image lies in an input: what is drawn in the image is found in the input, and the way back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tpuc.api.boundary import Preprocess
from tpuc_images.images import image_size, read_image
from tpuc_images.placing import Placement, placement

from tests.families import each

SHAPE = (1, 3, 64, 96)


@each(
    ("options", "scale", "offset"),
    [
        ({}, (0.5, 0.4), (0, 0)),
        ({"keep_aspect_ratio": True}, (0.4, 0.4), (10, 0)),  # 76.8 columns: 76, with 10 on both sides
        ({"keep_aspect_ratio": True, "pad_type": "normal"}, (0.4, 0.4), (0, 0)),
        ({"keep_aspect_ratio": True, "keep_ratio_mode": "short_side_scale"}, (0.5, 0.5), (0, -8)),
        ({"resize_dims": (80, 120)}, (0.625, 0.5), (-12, -8)),
        ({"resize_dims": (80, 120), "keep_aspect_ratio": True}, (0.5, 0.5), (0, -8)),
    ],
)
def test_a_rectangle_is_where_its_placement_says(
    options: dict[str, Any], scale: tuple[float, float], offset: tuple[float, float], tmp_path: Path
) -> None:
    pixels = np.zeros((160, 192, 3), np.uint8)
    pixels[40:120, 32:128] = 255
    file = tmp_path / "rectangle.png"
    Image.fromarray(pixels).save(file)
    preprocess = Preprocess(**options)
    place = placement(preprocess, *image_size(file), SHAPE)
    exact = Placement((192, 160), (96, 64), scale, offset)
    assert (place.image, place.input, place.offset) == (exact.image, exact.input, exact.offset)
    assert place.scale == pytest.approx(scale, rel=0.02)  # sizes are whole pixels
    bright = read_image(file, preprocess, SHAPE)[0, 0] > 127
    rows, columns = np.nonzero(bright.any(axis=1))[0], np.nonzero(bright.any(axis=0))[0]
    seen = np.array([[columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]], np.float64)
    # borders are found to half a pixel of the input, which is up to 1.25 pixels of the image
    np.testing.assert_allclose(place.to_image(seen), [[32, 40, 128, 120]], atol=1.26)


def test_boxes_are_cut_at_the_image() -> None:
    place = Placement((100, 50), (64, 64), (0.5, 0.5), (4, 10))
    boxes = np.array([[0.0, 0.0, 64.0, 64.0], [14.0, 20.0, 24.0, 30.0]])
    np.testing.assert_array_equal(place.to_image(boxes), [[0, 0, 100, 50], [20, 20, 40, 40]])


def test_the_size_is_that_of_the_turned_image(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[274] = 6  # to be shown turned by a quarter
    Image.new("RGB", (40, 20)).save(tmp_path / "turned.jpg", exif=exif)
    assert image_size(tmp_path / "turned.jpg") == (40, 20)
    Image.new("RGB", (40, 20)).save(tmp_path / "plain.jpg")
    assert image_size(tmp_path / "plain.jpg") == (20, 40)
