"""Images in another size, against areas by hand and exact fractions."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tpuc.errors import CalibrationError
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.data import from_pixels
from tpuc_images.images import read_image
from tpuc_images.resize import resize

from tests.families import each


def gray(*rows: list[int]) -> np.ndarray:
    return np.array(rows, np.uint8)[:, :, None]


def test_shrinking_takes_the_mean_over_areas() -> None:
    # 3 columns become 2: a whole pixel and half of the middle one each
    assert resize(gray([0, 90, 240]), 1, 2)[0, :, 0].tolist() == [30, 190]
    assert resize(gray([0, 10], [20, 50]), 1, 1).tolist() == [[[20]]]


@given(st.data())
def test_shrinking_is_exact_up_to_rounding(data: st.DataObject) -> None:
    old = data.draw(st.integers(1, 12))
    new = data.draw(st.integers(1, old))
    line = data.draw(st.lists(st.integers(0, 255), min_size=old, max_size=old))
    got = resize(gray(line), 1, new)[0, :, 0].tolist()
    for index, value in enumerate(got):
        start, stop = Fraction(index * old, new), Fraction((index + 1) * old, new)
        exact = sum(
            (line[place] * max(Fraction(0), min(stop, place + 1) - max(start, place)) for place in range(old)),
            Fraction(0),
        ) / (stop - start)
        assert abs(value - exact) <= Fraction(1, 2) + Fraction(1, 1000)


def test_growing_interpolates_between_centers() -> None:
    assert resize(gray([0, 100]), 1, 4)[0, :, 0].tolist() == [0, 25, 75, 100]


def test_the_same_size_changes_nothing() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), np.uint8)
    assert np.array_equal(resize(pixels, 5, 7), pixels)


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """4 rows of 8 columns; columns count up by 10."""
    file = tmp_path / "wide.png"
    Image.fromarray(np.repeat((np.arange(8, dtype=np.uint8) * 10)[None, :], 4, 0)).save(file)
    return file


def plane(file: Path, shape: tuple[int, int], **said: Any) -> list[list[float]]:
    return read_image(file, Preprocess(pixel_format="gray", **said), (1, 1, *shape))[0, 0].tolist()


def test_a_letterbox_stands_at_the_top_left_or_in_the_center(wide: Path) -> None:
    row = [5, 25, 45, 65]
    filled = [114.0] * 4
    said: dict[str, Any] = {"keep_aspect_ratio": True, "pad_value": 114}
    assert plane(wide, (4, 4), **said, pad_type="normal") == [row, row, filled, filled]
    assert plane(wide, (4, 4), **said) == [filled, row, row, filled]


def test_the_short_side_is_scaled_and_the_middle_taken(wide: Path) -> None:
    said: dict[str, Any] = {"keep_aspect_ratio": True, "keep_ratio_mode": "short_side_scale"}
    assert plane(wide, (2, 2), **said) == [[25, 45]] * 2
    assert plane(wide, (2, 2), **said, resize_dims=(4, 4)) == [[30, 40]] * 2


def test_alpha_is_a_channel_and_depth_is_not_in_images(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    Image.fromarray(np.array([[[1, 2, 3, 4]]], np.uint8)).save(file)
    assert read_image(file, Preprocess(pixel_format="rgba"), (1, 4, 1, 1)).reshape(-1).tolist() == [1, 2, 3, 4]
    with pytest.raises(
        CalibrationError, match=r"an image file has no pixels of format rgbd\. Give this input as \.npy"
    ):
        read_image(file, Preprocess(pixel_format="rgbd"), (1, 4, 1, 1))


@each("layout", ["nchw", "nhwc"])
def test_pixels_that_lie_otherwise_give_the_same_input(layout: Any, tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 3), np.uint8)
    Image.fromarray(pixels).save(file)
    shape = (1, 3, 4, 5) if layout == "nchw" else (1, 4, 5, 3)
    said = Preprocess((1, 2, 3), (0.5, 0.25, 2), "bgr", (6, 8), layout=layout)
    wanted = read_image(file, said, shape)
    rgb_rows = Preprocess(pixel_format="rgb", layout="nhwc")
    assert np.array_equal(from_pixels(said, pixels[None], rgb_rows, shape), wanted)
    bgr_planes = Preprocess(pixel_format="bgr", layout="nchw")
    assert np.array_equal(from_pixels(said, pixels[None, :, :, ::-1].transpose(0, 3, 1, 2), bgr_planes, shape), wanted)


def test_what_a_module_says_reaches_its_images() -> None:
    from tpuc.ir.preprocess import preprocess_of
    from tpuc_ops.top.input import image_input

    said: dict[str, Any] = {
        "mean": (1.0,),
        "scale": (0.5,),
        "pixel_format": "rgb",
        "keep_aspect_ratio": True,
        "keep_ratio_mode": "short_side_scale",
        "pad_value": 7,
        "pad_type": "normal",
        "resize_dims": (9, 10),
        "channel_format": "nhwc",
    }
    shape = (1, 8, 8, 3)
    assert preprocess_of(image_input(shape, said, "x"), shape) == Preprocess(
        (1.0,) * 3, (0.5,) * 3, "rgb", (9, 10), True, "nhwc", "short_side_scale", 7, "normal"
    )
    assert preprocess_of(image_input((1, 1, 8, 8), {}, "x"), (1, 1, 8, 8)).pixel_format == "gray"
