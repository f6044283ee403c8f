"""Frames as the camera hardware leaves them, by the sizes of the isa notes; what lies between rows is of no account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from numpy.typing import NDArray
from tpuc.api import ImageFrame, LoadedModel, Unsupported, UsageError
from tpuc_driver.session import Boundary, Session

from tests.chips.frames import network
from tests.families import each

NORMALIZED: dict[str, Any] = {"mean": (103.9, 116.8, 123.7), "scale": (0.017, 0.0171, 0.0175), "pixel_format": "rgb"}
BYTES = {
    ("cv181x", "RGB_PLANAR"): 3 * 12 * 64,
    ("cv181x", "BGR_PACKED"): 12 * 64,
    ("cv180x", "BGR_PLANAR"): 3 * 12 * 64,
    ("cv183x", "RGB_PLANAR"): 3 * 4096,
    ("cv183x", "RGB_PACKED"): 12 * 64,
    ("cv181x", "GRAYSCALE"): 12 * 64,
    ("cv183x", "GRAYSCALE"): 12 * 32,
    ("cv181x", "YUV_NV12"): 12 * 64 + 6 * 64,
    ("cv181x", "YUV420_PLANAR"): 12 * 128 + 2 * 6 * 64,
    ("cv183x", "YUV_NV21"): 2 * 4096,
    ("cv183x", "YUV420_PLANAR"): 3 * 4096,
}
"""Of a frame of 12 rows of 18 pixels."""
PLANES = {
    ("cv181x", "YUV_NV12"): ((0, 64), (768, 64)),
    ("cv181x", "YUV420_PLANAR"): ((0, 128), (1536, 64), (1920, 64)),
    ("cv183x", "YUV_NV21"): ((0, 32), (4096, 32)),
    ("cv183x", "YUV420_PLANAR"): ((0, 64), (4096, 32), (8192, 32)),
}
"""Where those of video begin, and how far their rows are apart."""
ROWS = {"cv183x": 32, "cv181x": 64, "cv180x": 64}
"""At which multiples of bytes they begin."""


def compiled(session: Session, path: Path, preprocess: dict[str, Any], boundary: Boundary) -> bytes:
    return session.build(session.transform(path, preprocess=preprocess), boundary=boundary).data


def frames(images: NDArray[np.uint8], form: str, size: int, alignment: int) -> NDArray[np.uint8]:
    """Images `[n, h, w, c]`, rgb, in a format; what is between rows and planes is noise."""
    noise = np.random.default_rng(7).integers(0, 256, (len(images), size)).astype(np.uint8)
    pixels = images[..., ::-1] if form.startswith("BGR") else images
    for frame, image in zip(noise, pixels, strict=True):
        planes = [image.reshape(len(image), -1)] if form.endswith("PACKED") else list(np.moveaxis(image, -1, 0))
        for plane, rows in zip(frame.reshape(len(planes), -1), planes, strict=True):
            stride = -(-rows.shape[1] // alignment) * alignment
            plane[: len(rows) * stride].reshape(len(rows), stride)[:, : rows.shape[1]] = rows
    return noise


def video_frames(video: NDArray[np.uint8], places: Sequence[tuple[int, int]], size: int) -> NDArray[np.uint8]:
    """Frames `[n, 1, 18, 18]` of which the first 12 rows are brightness, with noise between the rows of planes."""
    noise = np.random.default_rng(7).integers(0, 256, (len(video), size)).astype(np.uint8)
    width = 18 // (len(places) - 1)
    for frame, image in zip(noise, video[:, 0], strict=True):
        for (start, stride), rows in zip(places, [image[:12], *image[12:].reshape(-1, 6, width)], strict=True):
            lines = frame[start : start + len(rows) * stride].reshape(len(rows), stride)
            lines[:, : rows.shape[1]] = rows
    return noise


@dataclass(frozen=True)
class Case:
    """A file that takes two frames, what they are, and what the network makes of the same pixels as floats."""

    data: bytes
    loaded: LoadedModel
    frames: NDArray[np.uint8]
    wanted: NDArray[Any]

    @classmethod
    def of(cls, chip: str, form: str, folder: Path) -> Case:
        channels = 1 if form == "GRAYSCALE" else 3
        path, session = network(folder / "net.onnx", channels), Session(chip=chip, quantize="bf16")
        if (chip, form) in PLANES:
            return cls._of_video(session, path, form)
        said = NORMALIZED if channels == 3 else {"pixel_format": "gray", "mean": (100.0,), "scale": (0.02,)}
        data = compiled(session, path, said, Boundary(True, form, aligned_input=True))
        plain = session.chip.load(compiled(session, path, said, Boundary()))
        images = np.random.default_rng(3).integers(0, 256, (2, 12, 18, channels)).astype(np.uint8)
        mean, scale = (np.array(said[name], np.float32).reshape(1, channels, 1, 1) for name in ("mean", "scale"))
        floats = (images.transpose(0, 3, 1, 2).astype(np.float32) - mean) * scale
        (wanted,) = plain.run({"image": floats}).values()
        given = frames(images, form, BYTES[chip, form], ROWS[chip])
        return cls(data, session.chip.load(data), given, wanted)

    @classmethod
    def _of_video(cls, session: Session, path: Path, form: str) -> Case:
        """What the network makes of the same bytes without gaps."""
        chip = session.chip
        key = chip.description.name, form
        data, dense = (
            compiled(session, path, NORMALIZED, Boundary(True, form, aligned_input=aligned))
            for aligned in (True, False)
        )
        video = np.random.default_rng(3).integers(0, 256, (2, 1, 18, 18)).astype(np.uint8)
        (wanted,) = chip.load(dense).run({"image_raw": video}).values()
        return cls(data, chip.load(data), video_frames(video, PLANES[key], BYTES[key]), wanted)


@each(("chip", "form"), BYTES)
def test_frames_give_what_normalized_floats_give(chip: str, form: str, tmp_path: Path) -> None:
    case = Case.of(chip, form, tmp_path)
    (got,) = case.loaded.run({"image_raw": case.frames}).values()
    assert_array_equal(got, case.wanted)
    (spec,) = case.loaded.inputs
    c = 1 if form == "GRAYSCALE" else 3
    dims = (2, 12, 18, c) if form.endswith("PACKED") else (2, c, 12, 18)
    assert (spec.name, spec.size_bytes, spec.frame) == ("image_raw", 2 * BYTES[chip, form], ImageFrame(form, dims))


def test_frames_need_a_memory_of_their_own(tmp_path: Path) -> None:
    session, boundary = Session(chip="cv181x", quantize="bf16"), Boundary(True, aligned_input=True)
    five = network(tmp_path / "five.onnx", inputs=5)
    assert len(session.chip.load(compiled(session, five, NORMALIZED, boundary)).inputs) == 5
    six = network(tmp_path / "six.onnx", inputs=6)
    with pytest.raises(Unsupported) as caught:
        compiled(session, six, NORMALIZED, boundary)
    assert str(caught.value) == (
        "input 'image5_raw' takes camera frames by address, which needs a base register of its own; a file "
        "has 5 for inputs and outputs, assigned to inputs first. Leave out --aligned-input, or split the network"
    )


def test_frames_that_the_runtime_does_not_know(tmp_path: Path) -> None:
    session, boundary = Session(chip="cv181x", quantize="bf16"), Boundary(True, "RGBA_PACKED", aligned_input=True)
    with pytest.raises(
        Unsupported, match=r"the runtime supports no frames of RGBA_PACKED, only BGR_PACKED, BGR_PLANAR, "
    ):
        compiled(session, network(tmp_path / "net.onnx"), NORMALIZED, boundary)


def test_what_takes_no_frames(tmp_path: Path) -> None:
    path = network(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match="--aligned-input has no effect without --fuse-preprocess"):
        Boundary(aligned_input=True)
    session = Session(chip="cv181x", quantize="bf16")
    module = session.transform(path, preprocess=NORMALIZED)
    boundary = Boundary(True, aligned_input=True)
    with pytest.raises(
        UsageError, match="--test-input cannot be compared with --aligned-input, which takes camera frames"
    ):
        session.deploy(module, tmp_path / "net.cvimodel", boundary=boundary, test_input=(tmp_path / "x.npz",))
