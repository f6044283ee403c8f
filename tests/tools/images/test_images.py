"""Images become network inputs: every step on pictures small enough to work out by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tpuc.errors import CalibrationError
from tpuc.ir.preprocess import Preprocess
from tpuc_images.images import read_image

# two rows, two columns, RGB
PIXELS = np.array([[[10, 20, 30], [40, 50, 60]], [[70, 80, 90], [100, 110, 120]]], np.uint8)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    file = tmp_path / "a.png"
    Image.fromarray(PIXELS).save(file)
    return file


def test_rgb_and_bgr_planes(picture: Path) -> None:
    rgb = read_image(picture, Preprocess(pixel_format="rgb"), (1, 3, 2, 2))
    assert rgb.dtype == np.float32
    assert rgb.tolist() == [[[[10, 40], [70, 100]], [[20, 50], [80, 110]], [[30, 60], [90, 120]]]]
    assert read_image(picture, Preprocess(pixel_format="bgr"), (1, 3, 2, 2)).tolist() == rgb[:, ::-1].tolist()
    assert Preprocess().pixel_format == "bgr"


def test_nhwc_keeps_the_channels_last(picture: Path) -> None:
    result = read_image(picture, Preprocess(pixel_format="rgb", layout="nhwc"), (1, 2, 2, 3))
    assert result.tolist() == [PIXELS.tolist()]


def test_mean_and_scale_follow_the_pixel_format(picture: Path) -> None:
    result = read_image(picture, Preprocess(mean=(30, 20, 10), scale=(1, 0.5, 0.25), pixel_format="bgr"), (1, 3, 2, 2))
    # last pixel: b 120, g 110, r 100
    assert result[0, :, 1, 1].tolist() == [90.0, 45.0, 22.5]
    one = read_image(picture, Preprocess(mean=(10,), scale=(0.5,), pixel_format="rgb"), (1, 3, 2, 2))
    assert one[0, :, 1, 1].tolist() == [45.0, 50.0, 55.0]


def test_gray_of_a_gray_picture(tmp_path: Path) -> None:
    file = tmp_path / "g.png"
    Image.fromarray(np.array([[0, 128], [200, 255]], np.uint8)).save(file)
    result = read_image(file, Preprocess(mean=(128,), scale=(2,), pixel_format="gray"), (1, 1, 2, 2))
    assert result.tolist() == [[[[-256, 0], [144, 254]]]]
    assert read_image(file, Preprocess(pixel_format="rgb"), (1, 3, 2, 2))[0, 2].tolist() == [[0, 128], [200, 255]]


def test_a_constant_picture_stays_constant_when_resized(tmp_path: Path) -> None:
    file = tmp_path / "c.bmp"
    Image.new("RGB", (37, 11), (7, 8, 9)).save(file)
    result = read_image(file, Preprocess(pixel_format="rgb"), (1, 3, 20, 30))
    assert result.shape == (1, 3, 20, 30)
    assert [set(plane.reshape(-1).tolist()) for plane in result[0]] == [{7.0}, {8.0}, {9.0}]


def test_aspect_ratio_is_kept_between_bars_of_pixel_zero(tmp_path: Path) -> None:
    file = tmp_path / "wide.png"
    Image.new("RGB", (8, 4), (100, 100, 100)).save(file)
    result = read_image(file, Preprocess(mean=(50,), pixel_format="rgb", keep_aspect_ratio=True), (1, 3, 8, 8))
    # 8x4 fits unchanged; two rows above and two below are 0, minus the mean
    assert result[0, 0, :, 3].tolist() == [-50, -50, 50, 50, 50, 50, -50, -50]


def test_center_is_cropped_after_the_resize(tmp_path: Path) -> None:
    file = tmp_path / "ramp.png"
    ramp = np.repeat(np.arange(8, dtype=np.uint8)[None, :, None], 8, 0).repeat(3, 2)
    Image.fromarray(ramp).save(file)
    result = read_image(file, Preprocess(resize_dims=(8, 8), pixel_format="rgb"), (1, 3, 4, 4))
    assert result[0, 0].tolist() == [[2, 3, 4, 5]] * 4


def test_orientation_of_a_camera_is_applied(tmp_path: Path) -> None:
    file = tmp_path / "turned.png"
    exif = Image.Exif()
    exif[0x0112] = 3  # turned by 180 degrees
    Image.fromarray(PIXELS).save(file, exif=exif)
    assert read_image(file, Preprocess(pixel_format="rgb"), (1, 3, 2, 2))[0, 0].tolist() == [[100, 70], [40, 10]]


@pytest.mark.parametrize(
    ("options", "shape", "message"),
    [
        (Preprocess(), (1, 10), "an image cannot be an input of shape (1, 10). Give this input as .npy or .npz."),
        (
            Preprocess(),
            (1, 1, 2, 2),
            "pixel format bgr has 3 channels, but the input (1, 1, 2, 2) (nchw) has 1. Set the pixel format or",
        ),
        (
            Preprocess(mean=(1, 2)),
            (1, 3, 2, 2),
            "mean has 2 values, but bgr has 3 channel(s). Give one value, or one for each channel.",
        ),
        (
            Preprocess(resize_dims=(1, 2)),
            (1, 3, 2, 2),
            "resized to 1x2 it is smaller than the input 2x2. Choose larger resize dimensions.",
        ),
    ],
)
def test_options_that_do_not_fit_the_input(
    picture: Path, options: Preprocess, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(CalibrationError, match=re.escape(f"{picture}: {message}")):
        read_image(picture, options, shape)


def test_damaged_pictures(picture: Path, tmp_path: Path) -> None:
    damaged, text = tmp_path / "cut.png", tmp_path / "text.jpg"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(damaged)
    damaged.write_bytes(damaged.read_bytes()[:5000])
    text.write_text("no picture")
    for file in (damaged, text):
        with pytest.raises(CalibrationError, match=r"not a readable image \(.*\)\. Replace it, or remove it"):
            read_image(file, Preprocess(), (1, 3, 2, 2))
    with pytest.raises(CalibrationError, match=r"missing\.png: no such file\. Correct the list of samples\."):
        read_image(tmp_path / "missing.png", Preprocess(), (1, 3, 2, 2))
