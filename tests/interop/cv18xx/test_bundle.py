"""The programs of a deployment folder, built for this machine, on the vendor's runtime."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.chips.command_line import tpuc
from tests.chips.cv18xx.test_frames import network
from tests.docs.test_milk_v_duo import DIGITS
from tests.interop.bundles import Runtime
from tests.tools.eval.test_fused_boxes import IMAGE, write_heads

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("oracle_dir")]
NORMALISED = ("--mean", "3", "--scale", "0.125", "--pixel-format", "gray")


RUNTIME = Runtime(["-lcviruntime"], Path(__file__).parent / "runtime")


@pytest.mark.parametrize("chip", ["cv180x", "cv181x", "cv183x"])
@pytest.mark.parametrize("boundary", [(), ("--quant-input", "--quant-output")], ids=["floats", "integers"])
@pytest.mark.parametrize("said", [(), NORMALISED], ids=["values", "pixels"])
def test_both_print_what_the_simulator_gives(
    chip: str, boundary: tuple[str, ...], said: tuple[str, ...], tmp_path: Path
) -> None:
    image = np.load(DIGITS / "digits_eval.npz")["x"][0].reshape(1, 1, 8, 8)
    seen = np.load(DIGITS / "digits_calib.npz")["x"].astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=(seen - 3) / 8 if said else seen)
    done = tpuc(
        *("compile", DIGITS / "digits.onnx", "--chip", chip, "--quantize", "int8", *boundary, *said),
        *("--dataset", tmp_path / "calib.npz", "-o", tmp_path / "net.cvimodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    meant = (image.astype(np.float32) - 3) / 8 if said else image.astype(np.float32)
    np.savez(tmp_path / "image.npz", image=meant)
    tpuc("run", "--model", tmp_path / "net.cvimodel", "--input", tmp_path / "image.npz", "-o", tmp_path / "wanted.npz")

    (tmp_path / "out" / "input.bin").write_bytes(image.astype(np.uint8).tobytes() if said else meant.tobytes())
    RUNTIME.check_both(tmp_path / "out", tmp_path / "wanted.npz")


@pytest.mark.parametrize("colours", ["rgb", "bgr"])
def test_colours_are_put_in_order(colours: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (2, 12, 18, 3), np.uint8)
    done = tpuc(
        *("compile", network(tmp_path / "net.onnx"), "--chip", "cv181x", "--quantize", "bf16"),
        *("--mean", "103.9,116.8,123.7", "--scale", "0.017,0.0171,0.0175", "--pixel-format", colours),
        *("-o", tmp_path / "net.cvimodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    ordered = (pixels if colours == "rgb" else pixels[..., ::-1]).astype(np.float32)
    mean, scale = np.array([103.9, 116.8, 123.7], np.float32), np.array([0.017, 0.0171, 0.0175], np.float32)
    np.savez(tmp_path / "image.npz", image=((ordered - mean) * scale).transpose(0, 3, 1, 2))
    tpuc("run", "--model", tmp_path / "net.cvimodel", "--input", tmp_path / "image.npz", "-o", tmp_path / "wanted.npz")
    (tmp_path / "out" / "input.bin").write_bytes(pixels.tobytes())
    RUNTIME.check_both(tmp_path / "out", tmp_path / "wanted.npz")


def test_it_says_what_is_missing(tmp_path: Path) -> None:
    done = tpuc(
        *("compile", DIGITS / "digits.onnx", "--chip", "cv180x", "--quantize", "bf16"),
        *("-o", tmp_path / "net.cvimodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "out" / "short.bin").write_bytes(bytes(255))
    program = RUNTIME.build(tmp_path / "out")
    ran = RUNTIME.run([program, "short.bin"], tmp_path / "out")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, "short.bin has 255 bytes, and input image takes 256")
    assert RUNTIME.run([program], tmp_path / "out").returncode == 2


def test_files_that_normalise_take_the_bytes(tmp_path: Path) -> None:
    image = np.load(DIGITS / "digits_eval.npz")["x"][0].reshape(1, 1, 8, 8).astype(np.uint8)
    done = tpuc(
        *("compile", DIGITS / "digits.onnx", "--chip", "cv180x", "--quantize", "bf16", *NORMALISED),
        *("--fuse-preprocess", "-o", tmp_path / "net.cvimodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    (said,) = json.loads((tmp_path / "out" / "network.json").read_text("utf-8"))["inputs"]
    assert (said["type"], said["scale"]) == ("u8", 1.0)
    np.savez(tmp_path / "image.npz", **{said["name"]: image})
    tpuc("run", "--model", tmp_path / "net.cvimodel", "--input", tmp_path / "image.npz", "-o", tmp_path / "wanted.npz")
    (tmp_path / "out" / "input.bin").write_bytes(image.tobytes())
    RUNTIME.check_both(tmp_path / "out", tmp_path / "wanted.npz")


@pytest.mark.parametrize("post", ["classes", "yolox"])
def test_both_print_the_rows_of_the_simulator(post: str, tmp_path: Path) -> None:
    network = DIGITS / "digits.onnx" if post == "classes" else write_heads(post, tmp_path)
    done = tpuc(
        *("compile", network, "--chip", "cv181x", "--post", post),
        *("-o", tmp_path / "net.cvimodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    image = (
        np.load(DIGITS / "digits_eval.npz")["x"][:1, None].astype(np.float32) if post == "classes" else IMAGE["image"]
    )
    np.savez(tmp_path / "image.npz", image=image)
    tpuc("run", "--model", tmp_path / "net.cvimodel", "--input", tmp_path / "image.npz", "-o", tmp_path / "wanted.npz")
    (tmp_path / "out" / "input.bin").write_bytes(image.tobytes())
    RUNTIME.check_both(tmp_path / "out", tmp_path / "wanted.npz")
