"""`tpuc run` on a video: every frame is a picture, which OpenCV wrote and OpenCV's decoder reads."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from PIL import Image
from tpuc.api import install_command
from tpuc_driver.cli import main

from tests.frontends.onnx.networks import network, node

LIGHTS = (10, 20, 30, 40, 50)


def film(path: Path, lights: Sequence[int] = LIGHTS) -> Path:
    """Frames of one gray each, stored without loss."""
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"FFV1"), 25, (16, 16))
    assert writer.isOpened()
    for light in lights:
        writer.write(np.full((16, 16, 3), light, np.uint8))
    writer.release()
    return path


@pytest.fixture
def halved(tmp_path: Path) -> Path:
    """A map of half of the picture's gray."""
    nodes, weights = [node("Mul", "image w", "map")], {"w": np.array([0.5], np.float32)}
    onnx.save(network(nodes, {"image": (1, 1, 16, 16)}, ["map"], weights), tmp_path / "net.onnx")
    return tmp_path / "net.onnx"


def said(capture: pytest.CaptureFixture[str], *arguments: Path | str, code: int = 0) -> list[str]:
    capture.readouterr()
    assert main(["run", *map(str, arguments)]) == code
    out, err = capture.readouterr()
    return (err if code else out).splitlines()


def test_frames_are_pictures_in_their_order(halved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = film(tmp_path / "clip.avi")
    lines = said(capsys, halved, clip, "--preprocess=none", "-o", tmp_path / "out.npz")
    assert lines[::2] == [f"clip.avi, frame {number}:" for number in (1, 2, 3, 4, 5)]
    assert [line.split()[0] for line in lines[1::2]] == ["5", "10", "15", "20", "25"]
    with np.load(tmp_path / "out.npz") as found:
        assert found["map"].reshape(5, -1).max(1).tolist() == [light / 2 for light in LIGHTS]


def test_every_second_frame_is_drawn(halved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clip = film(tmp_path / "clip.MKV")
    lines = said(capsys, halved, clip, "--preprocess=none", "--every=2", "--draw", tmp_path / "d.png")
    assert lines[::2] == [f"clip.MKV, frame {number}:" for number in (1, 3, 5)]
    assert sorted(path.name for path in tmp_path.glob("d-*")) == ["d-00001.png", "d-00003.png", "d-00005.png"]
    with Image.open(tmp_path / "d-00003.png") as drawn:
        assert drawn.size == (16, 16)


def test_what_is_no_video_is_refused(halved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clip.mp4").write_bytes(b"no film")
    (line,) = said(capsys, halved, tmp_path / "clip.mp4", "--preprocess=none", code=1)
    assert line == f"tpuc: {tmp_path / 'clip.mp4'}: no frame in it can be decoded; is it a video?"


def test_without_opencv_the_extra_is_named(
    halved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = film(tmp_path / "clip.avi")
    monkeypatch.setitem(sys.modules, "cv2", None)
    (line,) = said(capsys, halved, clip, "--preprocess=none", code=1)
    assert line == (
        f"tpuc: {clip}: reading videos needs OpenCV, which is not installed: {install_command('video')}, or extract "
        "the frames with `ffmpeg -i clip.avi frames/%05d.png` and give their folder."
    )
