"""Preprocessing on the chip: bytes of images in, and exactly the values that the host's preprocessing gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.errors import InputNotDescribed, UsageError
from tpuc.interpreter import Interpreter
from tpuc.ir import Module
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.session import Boundary, Session
from tpuc_driver.session.artifacts import read_artifact
from tpuc_images.images import read_image
from tpuc_ops import tpu
from tpuc_testing.values import build_exposed

from tests.chips.bm1684x.small_networks import pixels, write_images, write_two_headed
from tests.chips.frames import host_frames
from tests.families import each
from tests.turns import first_few, in_turn, single_pairs

NORMALIZED = {"mean": (103.9, 116.8, 123.7), "scale": (0.017, 0.0171, 0.0175), "resize_dims": (16, 20)}
SHAPE = (2, 3, 12, 18)
COLORS = ("RGB_PLANAR", "RGB_PACKED", "BGR_PLANAR", "BGR_PACKED")
ORDERS = {f"{form}-{wanted}": (form, wanted) for form in COLORS for wanted in ("rgb", "bgr")}
"""What the image has, and what the network wants."""


def compile_both(
    tmp_path: Path, mode: str, form: str, preprocess: dict[str, Any], shape: tuple[int, int, int, int] = SHAPE
) -> tuple[Session, Module, Module, bytes, Module]:
    """A session, TOP, the fused TPU module with its file (all values visible), and the unfused one."""
    session = Session(chip="bm1684x", quantize=mode)
    top = session.transform(write_two_headed(tmp_path / "net.onnx", shape), preprocess=preprocess)
    rows, columns = preprocess.get("resize_dims", shape[2:])
    images = write_images(tmp_path / "images", rows, columns, gray=shape[1] == 1)
    table = session.calibrate(top, dataset=images) if mode == "int8" else None
    fused, data = build_exposed(session, top, table, boundary=Boundary(True, form))
    plain, _ = build_exposed(session, top, table)
    return session, top, fused, data, plain


def host_pixels(raw: np.ndarray, form: str, wanted: str, shape: tuple[int, ...]) -> np.ndarray:
    """The bytes as `[n, c, h, w]` of a network: layout, order of channels, center crop, by hand."""
    planar = raw.transpose(0, 3, 1, 2) if form.endswith("PACKED") else raw
    if form[:3].lower() != wanted and planar.shape[1] == 3:
        planar = planar[:, [2, 1, 0]]
    top, left = (planar.shape[2] - shape[2]) // 2, (planar.shape[3] - shape[3]) // 2
    return planar[:, :, top : top + shape[2], left : left + shape[3]]


def normalized(planar: np.ndarray, preprocess: dict[str, Any]) -> np.ndarray:
    """In float32, mean first."""
    mean, scale = (np.array(preprocess[name], np.float32).reshape(1, -1, 1, 1) for name in ("mean", "scale"))
    return (planar.astype(np.float32) - mean) * scale


def raw_shape(form: str, shape: tuple[int, ...], preprocess: dict[str, Any]) -> tuple[int, ...]:
    rows, columns = preprocess.get("resize_dims", shape[2:])
    return (shape[0], rows, columns, 3) if form.endswith("PACKED") else (*shape[:2], rows, columns)


@each(("orders", "mode"), in_turn(ORDERS, ("int8", "f32"), lambda orders: orders[0], single_pairs))
def test_fused_values_are_those_of_the_host_bit_for_bit(orders: str, mode: str, tmp_path: Path) -> None:
    form, wanted = ORDERS[orders]
    preprocess = {**NORMALIZED, "pixel_format": wanted}
    session, _, fused, data, plain = compile_both(tmp_path, mode, form, preprocess)
    raw = pixels(raw_shape(form, SHAPE, preprocess))
    floats = normalized(host_pixels(raw, form, wanted, SHAPE), preprocess)
    unfused = Interpreter(plain).run({"image": floats}, "all")
    evaluated = Interpreter(fused).run({"image_raw": raw}, "all")
    simulated = session.chip.load(data).run({"image_raw": raw})
    compared = set(unfused) & set(evaluated)
    first = "image_i8" if mode == "int8" else "image"
    assert {first, "relu", "map", "score"} <= compared
    for name in compared:
        assert np.array_equal(evaluated[name], unfused[name]), name
        if simulated[name].dtype != np.float32 or name == first:
            assert np.array_equal(simulated[name], unfused[name]), name


@each("channel_means", first_few([(103.9, 116.8, 123.7), (127.5, 127.5, 127.5), (0.0, 0.0, 0.0)], 1))
def test_all_256_values_of_every_channel(channel_means: tuple[float, ...], tmp_path: Path) -> None:
    preprocess = {"mean": channel_means, "scale": (1 / 127.5, 0.9 / 127.5, 1 / 255), "pixel_format": "bgr"}
    shape = (1, 3, 16, 16)
    session, _, fused, data, plain = compile_both(tmp_path, "int8", "RGB_PACKED", preprocess, shape)
    ramp = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1).repeat(3, 3)
    floats = normalized(host_pixels(ramp, "RGB_PACKED", "bgr", shape), preprocess)
    (name,) = [name for name in ("image_i8", "image_u8") if name in Interpreter(plain).run({"image": floats}, "all")]
    wanted = Interpreter(plain).run({"image": floats}, "all")[name]
    assert np.array_equal(Interpreter(fused).run({"image_raw": ramp}, "all")[name], wanted)
    assert np.array_equal(session.chip.load(data).run({"image_raw": ramp})[name], wanted)


def test_one_sum_serves_channels_that_are_normalized_alike(tmp_path: Path) -> None:
    preprocess = {"mean": (127.5,), "scale": (1 / 127.5,), "pixel_format": "rgb"}
    _, _, fused, _, _ = compile_both(tmp_path, "int8", "RGB_PLANAR", preprocess, (1, 3, 20, 24))
    names = [operation.op.name for operation in fused.walk()]
    assert (names.count("tpu.AddConst"), names.count("tpu.Lut")) == (1, 0)
    assert not any(operation.op.name in ("tpu.Slice", "tpu.Permute", "tpu.Concat") for operation in fused.walk())


def test_gray_images_take_a_sum_over_all_lanes(tmp_path: Path) -> None:
    _, _, fused, _, _ = compile_both(
        tmp_path, "int8", "GRAYSCALE", {"mean": (33.0,), "scale": (0.017,)}, (1, 1, 48, 40)
    )
    (added,) = (operation for operation in fused.walk() if isinstance(operation.op, tpu.AddConst))
    assert added.result.tensor.dims == (1, 1, 48, 40)
    assert isinstance(added.op, tpu.AddConst)
    assert added.op.multiplier > 1


def test_gray_images(tmp_path: Path) -> None:
    preprocess = {"mean": (33.0,), "scale": (0.0039,)}
    shape = (1, 1, 16, 16)
    session, _, _, data, plain = compile_both(tmp_path, "int8", "GRAYSCALE", preprocess, shape)
    raw = pixels(shape)
    wanted = Interpreter(plain).run({"image": normalized(raw, preprocess)}, "all")
    got = session.chip.load(data).run({"image_raw": raw})
    assert {"map", "score"} <= set(got) & set(wanted)
    for name in set(got) & set(wanted):
        assert np.array_equal(got[name], wanted[name]) or got[name].dtype == np.float32
    (info,) = session.chip.load(data).inputs
    assert (info.name, info.shape, str(info.element)) == ("image_raw", (1, 1, 16, 16), "ui8")


@pytest.mark.parametrize(
    ("form", "mode"),
    [
        ("YUV_NV12", "f32"),
        pytest.param("YUV_NV21", "bf16", marks=pytest.mark.slow),
        pytest.param("YUV420_PLANAR", "int8", marks=pytest.mark.slow),
        pytest.param("RGBA_PACKED", "int8", marks=pytest.mark.slow),
    ],
)
def test_frames_of_cameras(form: str, mode: str, tmp_path: Path) -> None:
    preprocess = {**NORMALIZED, "pixel_format": "bgr"}
    session, _, _, data, plain = compile_both(tmp_path, mode, form, preprocess)
    loaded = session.chip.load(data)
    raw = pixels(loaded.inputs[0].shape)
    wanted = Interpreter(plain).run({"image": host_frames(raw, form, preprocess, SHAPE)}, "all")
    got = loaded.run({"image_raw": raw})
    first = {"int8": "image_i8", "f32": "image", "bf16": "image_bf16"}[mode]
    assert np.array_equal(got[first], wanted[first])


def test_a_fused_file_runs_on_images_and_deploy_compares_it(tmp_path: Path) -> None:
    preprocess = {**NORMALIZED, "pixel_format": "bgr", "keep_aspect_ratio": True, "pad_value": 114}
    session = Session(chip="bm1684x", quantize="int8", work_dir=tmp_path / "work")
    network = write_two_headed(tmp_path / "net.onnx", (1, 3, 12, 18))
    images = write_images(tmp_path / "images", 31, 17)
    report = session.compile(
        network,
        tmp_path / "net.bmodel",
        preprocess=preprocess,
        dataset=images,
        test_input=(images / "0.png",),
        boundary=Boundary(True, "RGB_PACKED"),
    )
    assert [comparison.stages for comparison in report.comparisons] == ["TOP and TPU", "TPU and simulator"]
    assert "input 'image_raw': ui8 1x16x20x3\n" in report.text()
    # Module and file say how their bytes come from an image.
    from_module = session.run(tmp_path / "work" / "net_bm1684x_int8_sym_tpu.mlir", (images / "0.png",))
    from_file = session.run(tmp_path / "net.bmodel", (images / "0.png",))
    assert from_file.keys() == from_module.keys()
    for name, array in from_file.items():
        assert np.array_equal(array, from_module[name])
    by_hand = Preprocess(mean=(0,), pixel_format="rgb", resize_dims=(16, 20), keep_aspect_ratio=True, pad_value=114)
    np.save(
        tmp_path / "raw.npy",
        read_image(images / "0.png", by_hand, (1, 3, 16, 20)).transpose(0, 2, 3, 1).astype(np.uint8),
    )
    from_bytes = session.run(tmp_path / "net.bmodel", (tmp_path / "raw.npy",))
    assert all(np.array_equal(from_bytes[name], array) for name, array in from_file.items())


@each(
    ("preprocess", "form", "sentence"),
    [
        (
            {},
            "",
            "two_headed: no input has preprocessing to fuse. Transform the network",
        ),
        (
            {"mean": (1.0,)},
            "RGGB_RAW",
            "input 'image' takes bgr images, which RGGB_RAW does not match. Formats for it: RGB_PLANAR, RGB_PACKED,",
        ),
        (
            {"pixel_format": "rggb"},
            "RGB_PLANAR",
            "input 'image' takes rggb images, which RGB_PLANAR does not match. Formats for it: RGGB_RAW, GRBG_RAW,",
        ),
        (
            {"pixel_format": "rggb"},
            "",
            "input 'image' has 3 channels, but RGGB_RAW has 4. Transform the network with a matching --pixel-format",
        ),
        ({"mean": (1.0,)}, "NV12", "no customization format is named 'NV12'. Formats: RGB_PLANAR, RGB_PACKED,"),
        (
            {"mean": (1.0,)},
            "GRAYSCALE",
            "input 'image' takes bgr images, which GRAYSCALE does not match. Formats for it: RGB_PLANAR, RGB_PACKED,",
        ),
        (
            {"pixel_format": "rgbd"},
            "",
            "input 'image' takes rgbd images, which RGBD_PLANAR does not match. Compile it without --fuse-preprocess.",
        ),
        (
            {"pixel_format": "rgba"},
            "",
            "input 'image' has 3 channels, but RGBA_PLANAR has 4. Transform the network with a matching --pixel-format",
        ),
        (
            {"pixel_format": "gray"},
            "YUV_NV12",
            "input 'image' takes gray images, which YUV_NV12 does not match. Formats for it: GRAYSCALE.",
        ),
        (
            {"resize_dims": (13, 18)},
            "YUV_NV12",
            (
                "input 'image': YUV_NV12 frames have even heights and widths, but images are resized to 13x18. "
                "Transform "
                "the"
            ),
        ),
        (
            {"pixel_format": "gray"},
            "",
            "input 'image' has 3 channels, but GRAYSCALE has 1. Transform the network with a matching --pixel-format",
        ),
        (
            {"resize_dims": (10, 30)},
            "",
            "input 'image' is 12x18, but images are resized to 10x30. Transform the network with larger",
        ),
    ],
)
def test_what_cannot_be_fused(preprocess: dict[str, Any], form: str, sentence: str, tmp_path: Path) -> None:
    session = Session(chip="bm1684x")
    network = write_two_headed(tmp_path / "two_headed.onnx", SHAPE)
    module = session.transform(network, preprocess=preprocess)
    with pytest.raises(UsageError) as error:
        session.build(module, boundary=Boundary(True, form))
    assert str(error.value).startswith(sentence)


def test_a_compiled_file_says_how_images_become_its_inputs(tmp_path: Path) -> None:
    session = Session(chip="bm1684x")
    network = write_two_headed(tmp_path / "net.onnx", (1, 3, 8, 8))
    images = (write_images(tmp_path / "images", 8, 8, 1) / "0.png",)
    described, plain = tmp_path / "described.bmodel", tmp_path / "plain.bmodel"
    session.compile(network, described, preprocess={"pixel_format": "rgb", "mean": (3.0,)})
    session.compile(network, plain)
    assert read_artifact(session.chip, described)[0] == read_artifact(session.chip, plain)[0]
    wanted = session.run(network, images, preprocess={"pixel_format": "rgb", "mean": (3.0,)})
    got = session.run(described, images)
    np.testing.assert_allclose(got["map"], wanted["map"], rtol=0, atol=1e-4 * float(np.abs(wanted["map"]).max()))
    said = session.run(plain, images, preprocess={"pixel_format": "rgb", "mean": (3.0,)})
    assert np.array_equal(got["map"], said["map"])
    with pytest.raises(InputNotDescribed, match="input 'image' has no preprocessing for images"):
        session.run(plain, images)
    with pytest.raises(UsageError) as error:
        session.run(described, images, preprocess={"preset": "yolo", "mean": (1.0,)})
    assert str(error.value) == (
        f"{described}: preprocessing is stored in the file. Leave out --mean, --preprocess, or compile the network "
        f"again with other values."
    )


def test_the_chip_takes_no_frames_where_camera_hardware_leaves_them(tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize="f16")
    module = session.transform(write_two_headed(tmp_path / "net.onnx", SHAPE), preprocess=NORMALIZED)
    with pytest.raises(UsageError, match="chip 'bm1684x' does not take camera frames; leave out --aligned-input"):
        session.build(module, boundary=Boundary(True, aligned_input=True))


def test_a_fused_file_says_how_its_bytes_are_made(tmp_path: Path) -> None:
    session = Session(chip="bm1684x", quantize="f32")
    network = write_two_headed(tmp_path / "net.onnx", (1, 3, 8, 8))
    images = (write_images(tmp_path / "images", 31, 17, 1) / "0.png",)
    preprocess = {"pixel_format": "rgb", "mean": (3.0,), "resize_dims": (10, 12)}
    model = tmp_path / "net.bmodel"
    session.compile(network, model, preprocess=preprocess, boundary=Boundary(True, "BGR_PACKED"))
    wanted = session.run(network, images, preprocess=preprocess)
    np.testing.assert_allclose(
        session.run(model, images)["map"], wanted["map"], rtol=0, atol=1e-4 * float(np.abs(wanted["map"]).max())
    )


def test_a_module_says_itself_how_images_become_inputs(tmp_path: Path) -> None:
    session = Session()
    module = session.transform(write_two_headed(tmp_path / "net.onnx", (1, 3, 8, 8)), preprocess={"mean": (3.0,)})
    session.save(module, tmp_path / "net.mlir")
    images = write_images(tmp_path / "images", 8, 8, 1)
    values = session.run(tmp_path / "net.mlir", (images / "0.png",), dump_all_tensors=True)
    bgr = read_image(images / "0.png", Preprocess(), (1, 3, 8, 8))
    assert np.array_equal(values["image"], bgr - 3)
    with pytest.raises(UsageError) as error:
        session.run(tmp_path / "net.mlir", (images / "0.png",), preprocess={"scale": (2.0,), "mean": (1.0,)})
    assert str(error.value) == (
        f"{tmp_path / 'net.mlir'}: preprocessing is stored in the file. Leave out --mean, --scale, or transform "
        "the network again with other values."
    )
