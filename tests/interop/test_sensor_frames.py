"""Values of sensors in files that the vendor compiled: the same channels, and neither its levels nor mean and scale."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Boundary, Session

from tests.chips.test_sensor_frames import network
from tests.conftest import RunVendor
from tests.sensor_frames import ORDERS, every_value, packed

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("oracle_dir")]

SHAPE = (1, 4, 64, 64)
STORED_AS = {"F16": "f16", "BF16": "bf16", "F32": "f32"}


def _run(*command: str, cwd: Path) -> None:
    folder = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer") / "bin"
    name, *rest = command
    done = subprocess.run([str(folder / name), *rest], check=False, cwd=cwd, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:]


def _compiled(chip: str, mode: str, form: str, levels: tuple[str, str], folder: Path, *more: str) -> Path:
    """The vendor's file of a network that takes mosaics."""
    network(folder / "net.onnx", SHAPE, ("conv",))
    path = folder / ("net.bmodel" if chip == "bm1684x" else "net.cvimodel")
    shapes = ("--input_shapes", str([list(SHAPE)]))  # without them the vendor's fusing aborts
    said = (*shapes, "--pixel_format", "rggb", "--mean", levels[0], "--scale", levels[1], "--mlir", "net.mlir")
    _run("model_transform", "--model_name", "net", "--model_def", "net.onnx", *said, cwd=folder)
    wanted = ("--chip", chip, "--quantize", mode, "--fuse_preprocess", "--customization_format", f"{form.upper()}_RAW")
    options = ("--mlir", "net.mlir", *wanted, "--skip_validation", "--model", path.name, *more)
    _run("model_deploy", *options, cwd=folder)
    return path


@pytest.mark.parametrize(
    ("chip", "mode", "form"),
    [
        ("bm1684x", "F32", "rggb"),
        ("bm1684x", "F32", "grbg"),
        ("bm1684x", "F16", "gbrg"),
        ("bm1684x", "BF16", "bggr"),
        ("cv183x", "BF16", "rggb"),
        ("cv181x", "BF16", "bggr"),
    ],
)
def test_without_levels_our_file_gives_what_the_vendors_gives(
    chip: str, mode: str, form: str, tmp_path: Path, run_vendor: RunVendor
) -> None:
    mosaic = every_value(128, 128)
    raw = packed(mosaic[None])
    levels = ("112,112,112,112", "0.5,0.5,0.5,0.5") if form == "rggb" else ("0,0,0,0", "1,1,1,1")
    theirs = run_vendor(_compiled(chip, mode, form, levels, tmp_path), {"image_raw": raw})
    session = Session(chip=chip, quantize=STORED_AS[mode])
    top = session.transform(tmp_path / "net.onnx", preprocess={"pixel_format": form})
    data = session.build(top, boundary=Boundary(True, f"{form.upper()}_RAW")).data
    path = tmp_path / f"ours{'.bmodel' if chip == 'bm1684x' else '.cvimodel'}"
    path.write_bytes(data)
    (wanted,) = theirs.values()
    exact = np.stack([mosaic[row::2, column::2] for row, column in ORDERS[form]])[None].astype(np.float32)
    # What becomes bf16 on CV18xx is rounded half away from zero as at other inputs, by the vendor half to even here.
    halves = (exact.view(np.uint32) % 2**16 == 2**15) & chip.startswith("cv18")
    for outputs in (run_vendor(path, {"image_raw": raw}), session.chip.load(data).run({"image_raw": raw})):
        (got,) = outputs.values()
        same = got.reshape(SHAPE) == wanted.reshape(SHAPE)
        assert (same | halves).all()
    if mode == "F32":
        assert np.array_equal(wanted, exact)


def test_integers_of_bm1684x_are_255_times_too_large(tmp_path: Path, run_vendor: RunVendor) -> None:
    """That is why int8 files are not compared."""
    (tmp_path / "table").write_text("image 4095.0 0.0 4095.0\nconv_Conv 4095.0 0.0 4095.0\n")
    levels = ("0,0,0,0", "1,1,1,1")
    path = _compiled("bm1684x", "INT8", "rggb", levels, tmp_path, "--calibration_table", "table")
    mosaic = every_value(128, 128)
    (got,) = run_vendor(path, {"image_raw": packed(mosaic[None])}).values()
    step = 4095 / 255
    wanted = np.clip(np.floor(mosaic[::2, ::2] * 255 / step + 0.5), 0, 255) * step
    assert np.abs(got[0, 0] - wanted).max() < 0.01
