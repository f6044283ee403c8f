"""The programs of a deployment folder, built for this machine, on the vendor's runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.chips.command_line import tpuc
from tests.docs.test_milk_v_duo import DIGITS
from tests.interop.bundles import Runtime, vendor_library
from tests.tools.eval.test_fused_boxes import IMAGE, write_heads

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("oracle_dir")]
NORMALISED = ("--mean", "3", "--scale", "0.125", "--pixel-format", "gray")


@pytest.fixture
def runtime(tmp_path: Path) -> Runtime:
    """The runtime opens the functional model under one name for all chips; a link leads to that of this one."""
    models = tmp_path / "model"
    models.mkdir()
    (models / "libcmodel.so").symlink_to(vendor_library() / "libcmodel_bm1684x.so")
    return Runtime(["-lbmrt", "-lbmlib"], Path(__file__).parent / "runtime", [models])


@pytest.mark.parametrize("mode", [("f16",), ("int8",), ("int8", "--quant-input", "--quant-output")], ids="-".join)
@pytest.mark.parametrize("said", [(), NORMALISED], ids=["values", "pixels"])
def test_both_print_what_the_simulator_gives(
    mode: tuple[str, ...], said: tuple[str, ...], runtime: Runtime, tmp_path: Path
) -> None:
    image = np.load(DIGITS / "digits_eval.npz")["x"][0].reshape(1, 1, 8, 8)
    seen = np.load(DIGITS / "digits_calib.npz")["x"].astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=(seen - 3) / 8 if said else seen)
    done = tpuc(
        *("compile", DIGITS / "digits.onnx", "--chip", "bm1684x", "--quantize", *mode, *said),
        *("--dataset", tmp_path / "calib.npz", "-o", tmp_path / "net.bmodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    meant = (image.astype(np.float32) - 3) / 8 if said else image.astype(np.float32)
    np.savez(tmp_path / "image.npz", image=meant)
    tpuc("run", "--model", tmp_path / "net.bmodel", "--input", tmp_path / "image.npz", "-o", tmp_path / "wanted.npz")
    (tmp_path / "out" / "input.bin").write_bytes(image.astype(np.uint8).tobytes() if said else meant.tobytes())
    runtime.check_both(tmp_path / "out", tmp_path / "wanted.npz")


def test_it_says_what_is_missing(runtime: Runtime, tmp_path: Path) -> None:
    done = tpuc(
        *("compile", DIGITS / "digits.onnx", "--chip", "bm1684x", "--quantize", "f16"),
        *("-o", tmp_path / "net.bmodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "out" / "short.bin").write_bytes(bytes(255))
    program = runtime.build(tmp_path / "out")
    ran = runtime.run([program, "short.bin"], tmp_path / "out")
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, "short.bin has 255 bytes, and input image takes 256")
    assert runtime.run([program], tmp_path / "out").returncode == 2


@pytest.mark.parametrize("post", ["classes", "yolox"])
def test_both_print_the_rows_of_the_simulator(post: str, runtime: Runtime, tmp_path: Path) -> None:
    network = DIGITS / "digits.onnx" if post == "classes" else write_heads(post, tmp_path)
    done = tpuc(
        *("compile", network, "--chip", "bm1684x", "--post", post),
        *("-o", tmp_path / "net.bmodel", "--bundle", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    image = (
        np.load(DIGITS / "digits_eval.npz")["x"][:1, None].astype(np.float32) if post == "classes" else IMAGE["image"]
    )
    np.savez(tmp_path / "image.npz", image=image)
    tpuc("run", "--model", tmp_path / "net.bmodel", "--input", tmp_path / "image.npz", "-o", tmp_path / "wanted.npz")
    (tmp_path / "out" / "input.bin").write_bytes(image.tobytes())
    runtime.check_both(tmp_path / "out", tmp_path / "wanted.npz")
