"""Preprocessing on the chip: bytes of images in, and exactly the values that the host's preprocessing gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc_driver.session import Boundary, Session
from tpuc_testing.values import build_exposed

from tests.chips.cv18.op_networks import Net
from tests.chips.frames import frames, host_frames
from tests.families import each

NORMALIZED: dict[str, Any] = {
    "mean": (103.9, 116.8, 123.7),
    "scale": (0.017, 0.0171, 0.0175),
    "pixel_format": "rgb",
    "resize_dims": (16, 20),
}


def write_network(path: Path) -> Path:
    """One convolution of images."""
    net = Net()
    x = net.op("Conv", ["image", net.normal("w", (8, 3, 3, 3), 0.2)], "conv", kernel_shape=[3, 3], pads=[1] * 4)
    net.op("Relu", [x], "y")
    return net.save(path, {"image": (2, 3, 12, 18)}, ["y"])


@each("form", ["RGB_PLANAR", "BGR_PACKED"])
@each(
    "preprocess",
    [
        NORMALIZED,
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ({**NORMALIZED, "mean": (9.0,), "scale": (0.01,)}, None)
        ),
    ],
)
def test_bytes_give_what_normalized_floats_give(preprocess: dict[str, Any] | None, form: str, tmp_path: Path) -> None:
    preprocess = preprocess or {"pixel_format": "rgb"}
    session = Session(chip="cv183x", quantize="bf16")
    top = session.transform(write_network(tmp_path / "net.onnx"), preprocess=preprocess)
    fused, plain = (
        session.chip.load(session.build(top, boundary=boundary).data) for boundary in (Boundary(True, form), Boundary())
    )
    rows, columns = preprocess.get("resize_dims", (12, 18))
    rgb = np.random.default_rng(3).integers(0, 256, (2, rows, columns, 3)).astype(np.uint8)
    rgb.reshape(-1)[:256] = np.arange(256)
    top_row, left = (rows - 12) // 2, (columns - 18) // 2
    planar = rgb[:, top_row : top_row + 12, left : left + 18].transpose(0, 3, 1, 2).astype(np.float32)
    mean, scale = (
        np.resize(np.float32(preprocess.get(name, default)), 3).reshape(1, 3, 1, 1)
        for name, default in (("mean", (0.0,)), ("scale", (1.0,)))
    )
    given = rgb if form.startswith("RGB") else rgb[..., ::-1]
    given = given if form.endswith("PACKED") else given.transpose(0, 3, 1, 2)
    (wanted,) = plain.run({"image": (planar - mean) * scale}).values()
    (got,) = fused.run({"image_raw": np.ascontiguousarray(given)}).values()
    assert np.array_equal(got, wanted)


@each("form", ["YUV_NV12", "YUV_NV21", "YUV420_PLANAR", pytest.param("RGBA_PACKED", marks=pytest.mark.slow)])
def test_frames_of_cameras(form: str, tmp_path: Path) -> None:
    preprocess = {**NORMALIZED, "pixel_format": "bgr"}
    session = Session(chip="cv183x", quantize="bf16")
    top = session.transform(write_network(tmp_path / "net.onnx"), preprocess=preprocess)
    fused, plain = (
        session.chip.load(session.build(top, boundary=boundary).data) for boundary in (Boundary(True, form), Boundary())
    )
    raw = frames(fused.inputs[0].shape)
    (wanted,) = plain.run({"image": host_frames(raw, form, preprocess, (2, 3, 12, 18))}).values()
    (got,) = fused.run({"image_raw": raw}).values()
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("form", ["YUV_NV12", pytest.param("YUV420_PLANAR", marks=pytest.mark.slow)])
def test_every_byte_of_a_frame_gives_what_it_gives_on_the_host(form: str, tmp_path: Path) -> None:
    """Of brightness, of both colors, and half of all pairs of colors: 256x512 pixels."""
    preprocess, shape = {"pixel_format": "rgb", "scale": (1.0,), "mean": (0.0,)}, (1, 3, 256, 512)
    net = Net()
    net.op("Conv", ["image", net.constant("w", np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1))], "y")
    path = net.save(tmp_path / "net.onnx", {"image": shape}, ["y"])
    session = Session(chip="cv183x", quantize="bf16")
    fused = session.chip.load(
        session.build(session.transform(path, preprocess=preprocess), boundary=Boundary(True, form)).data
    )
    colors = np.arange(1 << 15, dtype=np.uint32) * 2 + np.arange(1 << 15, dtype=np.uint32) // (1 << 7) % 2
    brightness = np.random.default_rng(1).permutation(np.arange(1 << 17) % 256).astype(np.uint8)
    u, v = (colors & 0xFF).astype(np.uint8), (colors >> 8).astype(np.uint8)
    maps = np.stack([u, v], 1).reshape(-1) if form == "YUV_NV12" else np.concatenate([u, v])
    raw = np.concatenate([brightness, maps]).reshape(1, 1, 384, 512)
    (got,) = fused.run({"image_raw": raw}).values()
    assert np.array_equal(got, host_frames(raw, form, preprocess, shape))


def test_colors_are_added_at_their_own_resolution(tmp_path: Path) -> None:
    """Tables: of the lower byte of brightness, of three of the four rests of colors, and of normalizing."""
    session = Session(chip="cv183x", quantize="bf16")
    top = session.transform(write_network(tmp_path / "net.onnx"), preprocess=NORMALIZED)
    fused, _ = build_exposed(session, top, None, boundary=Boundary(True, "YUV_NV12"))
    names = [operation.op.name for operation in fused.walk()]
    assert "tpu.Upsample" not in names
    assert [names.count(f"tpu.{name}") for name in ("Lut", "MulShift", "AddConst", "Add")] == [7, 1, 3, 3]
