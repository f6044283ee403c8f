"""What users say of pictures: presets, deviations, shares of one, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tpuc.errors import InputNotDescribed, TpucError, UsageError
from tpuc.ir.preprocess import Preprocess, preprocess_from
from tpuc.registry import Registry
from tpuc_driver.data import SampleInput, check_channels, described, open_samples

from tests.families import each

TORCH = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
"""Mean and standard deviation of ImageNet, as PyTorch writes them."""
BYTES = ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
"""The same of bytes, multiplied by hand."""


def of(**said: Any) -> tuple[dict[str, Any], list[str]]:
    """What a description comes to, and the remarks about it."""
    remarks: list[str] = []
    return described(said, Registry(), remarks.append), remarks


def test_deviations_of_pixels_from_0_to_1_are_converted_with_a_remark() -> None:
    found, remarks = of(mean=TORCH[0], std=TORCH[1])
    np.testing.assert_allclose(found["mean"], BYTES[0], rtol=1e-12)
    np.testing.assert_allclose(found["scale"], 1 / np.array(BYTES[1]), rtol=1e-12)
    assert remarks == [
        (
            "--mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 is for pixels from 0 to 1; for pixels from 0 to 255 this "
            "is --mean "
            "123.675,116.28,103.53 --scale 0.0171248,0.017507,0.0174292"
        )
    ]


def pictured(shape: tuple[int, ...], **said: Any) -> SampleInput:
    return SampleInput("x", shape, preprocess=preprocess_from(said, shape), is_described=True)


def test_pictures_that_none_of_the_inputs_can_be_are_refused() -> None:
    check_channels([pictured((1, 3, 8, 8), pixel_format="rgb"), pictured((1, 64, 8, 8), pixel_format="rgb")])
    check_channels([pictured((1, 8, 8, 1), pixel_format="gray", channel_format="nhwc")])
    check_channels([SampleInput("x", (1, 64, 8, 8), is_described=False), pictured((1, 10))])
    for shape, said in (((1, 1, 8, 8), {"pixel_format": "rgb"}), ((1, 8, 8, 3), {"pixel_format": "bgr"})):
        with pytest.raises(UsageError, match=r"has \d+\. Choose another --pixel-format or --channel-format"):
            check_channels([pictured(shape, **said)])


def test_deviations_of_bytes_are_taken_as_they_are() -> None:
    found, remarks = of(mean=BYTES[0], std=BYTES[1])
    assert (found["mean"], found["scale"], remarks) == (BYTES[0], tuple(1 / one for one in BYTES[1]), [])
    assert of(mean=(104.0,), std=(1.0,))[0] == {"mean": (104.0,), "scale": (1.0,)}


@each(
    ("said", "sentence"),
    [
        (
            {"mean": (0.0,), "std": (1.0,)},
            (
                "--mean 0 --std 1 may be meant for pixels from 0 to 255, or from 0 to 1. Add --scale 1 for 0 to 255, "
                "or --scale 0.0039215686 for 0 to 1."
            ),
        ),
        (
            {"mean": TORCH[0], "scale": (0.017,)},
            (
                "--mean 0.485,0.456,0.406 is for pixels from 0 to 1, and --mean expects pixels from 0 to 255. Give "
                "--mean "
                "123.675,116.28,103.53 and --scale, or --mean and --std as they are."
            ),
        ),
        (
            {"mean": BYTES[0], "std": TORCH[1]},
            (
                "--mean 123.675,116.28,103.53 --std 0.229,0.224,0.225: one is for pixels from 0 to 1, the other for "
                "pixels from 0 to 255. Give both for the same range."
            ),
        ),
        ({"std": (2.0,), "scale": (0.5,)}, "--std and --scale set the same value; give one of them."),
        ({"std": (0.0,)}, "--std 0: standard deviations must be above 0."),
    ],
)
def test_numbers_that_leave_something_open_are_asked_about(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError) as error:
        of(**said)
    assert str(error.value) == sentence


def test_a_preset_is_what_it_stands_for_where_nothing_else_was_said() -> None:
    found, _ = of(preset="imagenet-torch", pixel_format="bgr")
    said = preprocess_from(found, (1, 3, 224, 224))
    assert (said.pixel_format, said.resize_dims, said.keep_ratio_mode) == ("bgr", (256, 256), "short_side_scale")
    np.testing.assert_allclose(said.mean, BYTES[0], rtol=1e-12)
    assert preprocess_from(of(preset="imagenet-tf")[0], (1, 3, 128, 96)).resize_dims == (146, 110)
    assert preprocess_from(of(preset="caffe", resize_dims=(300, 300))[0], (1, 3, 227, 227)).resize_dims == (300, 300)
    assert preprocess_from(of(preset="none")[0], (1, 3, 8, 8)) == Preprocess()


def test_a_preset_that_is_not_there_is_refused() -> None:
    with pytest.raises(TpucError, match=r"no preset named 'imagenet-touch'. Did you mean 'imagenet-torch'"):
        of(preset="imagenet-touch")


def test_pictures_without_a_description_are_an_error_that_shows_the_presets(tmp_path: Path) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "cat.png")
    with pytest.raises(InputNotDescribed) as error:
        open_samples([SampleInput("x", (1, 3, 4, 4), is_described=False)], tmp_path)
    assert str(error.value) == (
        f"{tmp_path / 'cat.png'}: input 'x' has no preprocessing for images. Give it with --preprocess PRESET "
        "(caffe, imagenet-tf, imagenet-torch, none, ssd, yolo, yolox), or with --pixel-format, --mean and --scale, "
        "when you transform or compile the network."
    )
    assert len(open_samples([SampleInput("x", (1, 3, 4, 4))], tmp_path)) == 1
    np.save(tmp_path / "cat.npy", np.zeros((1, 3, 4, 4), np.float32))
    assert len(open_samples([SampleInput("x", (1, 3, 4, 4), is_described=False)], tmp_path / "cat.npy")) == 1
