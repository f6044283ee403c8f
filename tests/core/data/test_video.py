"""Frames of cameras as RGB: by BT.601 in exact numbers, and by what a common library gives."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.data import VIDEO_FORMATS, from_pixels, rgb_of_frames, video_terms

from tests.families import each


def test_black_white_and_the_primaries() -> None:
    """Y, U, V of the standard's color bars at full strength."""
    bars = {
        (16, 128, 128): (0, 0, 0),
        (235, 128, 128): (255, 255, 255),
        (81, 90, 240): (254, 0, 0),
        (145, 54, 34): (0, 255, 1),
        (41, 240, 110): (0, 0, 255),
        (0, 128, 128): (0, 0, 0),
        (255, 128, 128): (255, 255, 255),
    }
    for (y, u, v), wanted in bars.items():
        frame = np.array([[y, y], [y, y], [u, v]], np.uint8).reshape(1, 1, 3, 2)
        assert (rgb_of_frames(frame, VIDEO_FORMATS["nv12"]) == wanted).all()


def test_every_pixel_is_the_exact_sum_rounded_by_less_than_a_sixteenth_more() -> None:
    y, u, v = (maps.reshape(-1) for maps in np.meshgrid(*[np.r_[np.arange(0, 256, 5), 255]] * 3))
    frames = np.stack([y, y, y, y, u, v], 1).astype(np.uint8).reshape(-1, 1, 3, 2)
    got = rgb_of_frames(frames, VIDEO_FORMATS["nv12"])[:, 0, 0]
    luma = 255 / 219 * np.maximum(y - 16.0, 0)
    red, blue = luma + 1.596027 * (v - 128.0), luma + 2.017232 * (u - 128.0)
    green = luma - 0.391762 * (u - 128.0) - 0.812968 * (v - 128.0)
    exact = np.clip(np.stack([red, green, blue], 1), 0, 255)
    assert np.abs(got - exact).max() <= 0.5 + 3 / 32


def _spread(frames: NDArray[np.uint8]) -> dict[str, NDArray[np.uint8]]:
    """The same pictures in each format, from frames as nv12 has them."""
    count, _, rows, _ = frames.shape
    luma, pairs = np.split(frames, [rows * 2 // 3], 2)
    u, v = (pairs.reshape(count, -1)[:, place::2] for place in range(2))
    planar, swapped = np.concatenate([u, v], 1), np.stack([v, u], 2)
    return {
        "nv12": frames,
        "nv21": np.concatenate([luma, swapped.reshape(pairs.shape)], 2),
        "yuv420": np.concatenate([luma, planar.reshape(pairs.shape)], 2),
    }


def test_the_formats_differ_in_the_places_of_colors_only() -> None:
    frames = np.random.default_rng(2).integers(0, 256, (2, 1, 12, 6)).astype(np.uint8)
    pictures = [rgb_of_frames(other, VIDEO_FORMATS[name]) for name, other in _spread(frames).items()]
    assert pictures[0].shape == (2, 8, 6, 3)
    assert all(np.array_equal(pictures[0], other) for other in pictures[1:])
    bgr = from_pixels(Preprocess(pixel_format="bgr"), frames, Preprocess(pixel_format="nv12"), (2, 3, 8, 6))
    assert np.array_equal(bgr, pictures[0][..., ::-1].transpose(0, 3, 1, 2))


def test_alpha_is_left_out() -> None:
    pixels = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(1, 2, 3, 4)
    given = Preprocess(pixel_format="rgba", layout="nhwc")
    for wanted, order in (("rgb", [0, 1, 2]), ("bgr", [2, 1, 0])):
        network = Preprocess(pixel_format=wanted, layout="nhwc")  # pyright: ignore[reportArgumentType]  # one of the names
        assert np.array_equal(from_pixels(network, pixels, given, (1, 2, 3, 3)), pixels[..., order])


@each("name", [name for name, _ in video_terms().items()])
def test_float32_gives_the_same_terms_as_tables(name: tuple[str, str]) -> None:
    """As a chip with float32 computes them: a large number added and taken off rounds to sixteenths."""
    term = video_terms()[name]
    large = np.float32(1.5 * 2**19)
    difference = np.arange(256, dtype=np.float32) + np.float32(-term.zero)
    product = (np.maximum(difference, 0) if term.is_positive else difference) * np.float32(term.factor)
    sixteenths = ((product + large) - large) * 16
    assert np.array_equal(sixteenths, term.values)
    assert np.array_equal(term.high.astype(np.int64) * 256 + term.low, term.values)
