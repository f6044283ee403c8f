"""Values of sensors in compiled files: exactly what the host's preprocessing gives, on every chip and in every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tpuc.errors import CalibrationError, UsageError
from tpuc.ir import Module
from tpuc.ir.preprocess import Preprocess
from tpuc_driver.data import from_pixels
from tpuc_driver.session import Boundary, Session
from tpuc_testing.values import build_exposed

from tests.chips.cv18.op_networks import Net
from tests.families import each
from tests.sensor_frames import every_value, packed

SHAPE = (2, 4, 32, 32)
LEVELS: dict[str, Any] = {"pixel_format": "rggb", "mean": (240.0,), "scale": (1 / 3855,)}
EACH: dict[str, Any] = {
    "pixel_format": "gbrg",
    "mean": (240.0, 241.0, 242.5, 243.0),
    "scale": (0.0003, 0.0002, 0.0004, 0.00025),
    "resize_dims": (36, 40),
}


def network(path: Path, shape: tuple[int, ...] = SHAPE, outputs: tuple[str, ...] = ("conv", "y")) -> Path:
    """Channels that stay apart, so that every value of the input is seen."""
    net = Net()
    net.op(
        "Relu",
        [net.op("Conv", ["image", net.constant("w", np.eye(shape[1], dtype=np.float32)[..., None, None])], "conv")],
        "y",
    )
    return net.save(path, {"image": shape}, outputs)


RUNS: dict[str, tuple[str, dict[str, Any], float]] = {
    "bm1684x-f32": ("RGGB_RAW", LEVELS, 1.0),
    "bm1684x-f16": ("GRBG_RAW", EACH, 1.0),
    "bm1684x-bf16": ("BGGR_RAW", LEVELS, 1.0),
    "bm1684x-int8": ("GBRG_RAW", EACH, 0.5),
    "bm1684x-int8-asym": ("RGGB_RAW", LEVELS, 1.0),
    "c-f32": ("RGGB_RAW", EACH, 1.0),
    "c-int8": ("BGGR_RAW", LEVELS, 1.0),
    "cv183x-int8": ("GBRG_RAW", EACH, 1.0),
    "cv181x-int8": ("RGGB_RAW", LEVELS, 0.3),
    "cv180x-int8": ("BGGR_RAW", LEVELS, 1.0),
    "cv183x-bf16": ("RGGB_RAW", {"pixel_format": "rggb"}, 1.0),
    "cv182x-bf16": ("GRBG_RAW", {**LEVELS, "mean": (240.5,)}, 1.0),
}
"""By chip and mode: a format, what is said of the network, and which part of its values was seen in calibration."""
QUICK = ("bm1684x-f32", "cv183x-int8")


def _data(session: Session, top: Module, table: Any, boundary: Boundary) -> bytes:
    """The file, with every value as an output where inputs may be some."""
    if session.chip.description.name == "c":
        return session.build(top, table, boundary=boundary).data
    return build_exposed(session, top, table, boundary=boundary)[1]


@each("run", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in RUNS])
def test_values_are_those_of_the_host_bit_for_bit(run: str, tmp_path: Path) -> None:
    (chip, _, mode), (form, said, seen) = run.partition("-"), RUNS[run]
    rows, columns = said.get("resize_dims", SHAPE[2:])
    raw = packed(np.stack([every_value(2 * rows, 2 * columns, seed) for seed in range(SHAPE[0])]))
    given = Preprocess(pixel_format=form.removesuffix("_RAW").lower())  # pyright: ignore[reportArgumentType]  # one of the names
    floats = from_pixels(Preprocess(**said), raw, given, SHAPE)
    session = Session(chip=chip, quantize=mode)
    top = session.transform(network(tmp_path / "net.onnx"), preprocess=said)
    np.savez(tmp_path / "samples.npz", image=floats * np.float32(seen))
    table = session.calibrate(top, dataset=tmp_path / "samples.npz") if mode.startswith("int8") else None
    fused, plain = (_data(session, top, table, boundary) for boundary in (Boundary(True, form), Boundary()))
    wanted, got = session.chip.load(plain).run({"image": floats}), session.chip.load(fused).run({"image_raw": raw})
    same = set(wanted) & set(got)
    assert {"conv", "y"} <= {name.partition("_")[0] for name in same}
    assert len(np.unique(wanted[next(name for name in same if name.startswith("conv"))])) > 50
    for name in same:
        assert np.array_equal(got[name], wanted[name]), name


def test_a_file_takes_frames_and_deploy_compares_it(tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="bf16", work_dir=tmp_path / "work")
    raw = packed(every_value(16, 24)[None])
    np.savez(tmp_path / "raw.npz", image_raw=raw)
    report = session.compile(
        network(tmp_path / "net.onnx", (1, 4, 8, 12)),
        tmp_path / "net.cvimodel",
        preprocess=LEVELS,
        test_input=(tmp_path / "raw.npz",),
        boundary=Boundary(True),
    )
    assert [comparison.stages for comparison in report.comparisons] == ["TOP and TPU", "TPU and simulator"]
    assert "input 'image_raw': ui8 1x1x16x36\n" in report.text()
    floats = from_pixels(Preprocess(**LEVELS), raw, Preprocess(pixel_format="rggb"), (1, 4, 8, 12))
    np.savez(tmp_path / "floats.npz", image=floats)
    wanted = session.run(tmp_path / "net.onnx", (tmp_path / "floats.npz",))
    got = session.run(tmp_path / "net.cvimodel", (tmp_path / "raw.npz",))
    for one, other in zip(got.values(), wanted.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=2**-8)


def test_rows_of_mosaics_are_not_aligned(tmp_path: Path) -> None:
    session = Session(chip="cv183x", quantize="bf16")
    module = session.transform(network(tmp_path / "net.onnx"), preprocess=LEVELS)
    with pytest.raises(UsageError) as error:
        session.build(module, boundary=Boundary(True, aligned_input=True))
    assert str(error.value) == (
        "input 'image': RGGB_RAW frames have no padding between rows; leave out --aligned-input."
    )


def test_pictures_are_not_mosaics(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((32, 32, 3), np.uint8)).save(tmp_path / "a.png")
    session = Session(chip="bm1684x", quantize="f32")
    with pytest.raises(
        CalibrationError, match=r"an image file has no pixels of format rggb\. Give this input as \.npy"
    ):
        session.run(network(tmp_path / "net.onnx", (1, 4, 32, 32)), (tmp_path / "a.png",), preprocess=LEVELS)
