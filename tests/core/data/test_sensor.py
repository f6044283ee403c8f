"""Mosaics of sensors as four channels, by shifts and places written down by hand."""

from __future__ import annotations

import numpy as np
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.data import SENSOR_FORMATS, channels_of_mosaics, from_pixels

from tests.families import each
from tests.sensor_frames import ORDERS, packed

SQUARE = np.array([[0x123, 0x456], [0x789, 0xABC]])


def test_two_values_take_three_bytes() -> None:
    wanted = [[0x12, 0x45, 0x63], [0x78, 0xAB, 0xC9]]
    assert packed(SQUARE[None]).tolist() == [[wanted]]


@each(
    ("name", "wanted"),
    [
        ("rggb", [0x123, 0x456, 0xABC, 0x789]),
        ("grbg", [0x456, 0x123, 0x789, 0xABC]),
        ("gbrg", [0x789, 0xABC, 0x456, 0x123]),
        ("bggr", [0xABC, 0x789, 0x123, 0x456]),
    ],
)
def test_channels_are_red_green_beside_red_blue_green_beside_blue(name: str, wanted: list[int]) -> None:
    assert channels_of_mosaics(packed(SQUARE[None]), SENSOR_FORMATS[name]).tolist() == [[[wanted]]]


@each("name", SENSOR_FORMATS)
def test_every_value_at_every_place(name: str) -> None:
    mosaic = np.random.default_rng(5).permutation(4096).reshape(1, 64, 64)
    channels = channels_of_mosaics(packed(mosaic), SENSOR_FORMATS[name])
    for channel, (row, column) in enumerate(ORDERS[name]):
        assert np.array_equal(channels[..., channel], mosaic[:, row::2, column::2])


def test_the_middle_is_normalized_as_other_pixels_are() -> None:
    mosaic = np.random.default_rng(6).integers(0, 4096, (2, 8, 12))
    black, factor = np.float32(240.5), np.float32(1 / 3855)
    said = Preprocess(pixel_format="rggb", mean=(240.5,), scale=(1 / 3855,))
    values = from_pixels(said, packed(mosaic), Preprocess(pixel_format="bggr"), (2, 4, 2, 4))
    assert values.dtype == np.float32
    assert np.array_equal(values[:, 2], (mosaic[:, 2:6:2, 2:10:2].astype(np.float32) - black) * factor)
