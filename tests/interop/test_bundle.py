"""The programs of a deployment folder, built for this machine, on the vendors' runtimes."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from _pytest.mark import ParameterSet
from numpy.typing import NDArray
from PIL import Image
from tpuc.api.boundary import Preprocess
from tpuc.npz import write_npz
from tpuc.registry import Registry
from tpuc_eval.options import configured
from tpuc_eval.protocols import Sample
from tpuc_images.placing import Placement, placement

from tests.chips.command_line import tpuc
from tests.chips.cv18.op_networks import Net
from tests.chips.frames import network
from tests.docs.test_milk_v_duo import DIGITS
from tests.interop.bundles import Runtime, printed, vendor_library
from tests.tools.eval.test_fused_boxes import IMAGE, Heads, write_heads
from tests.tools.eval.test_object_programs import check
from tests.tools.eval.test_yolo_tasks import TASKS

pytestmark = [pytest.mark.interop, pytest.mark.usefixtures("oracle_dir")]
HERE = Path(__file__).parent
NORMALIZED = ("--mean", "3", "--scale", "0.125", "--pixel-format", "gray")
INTEGERS = ("int8", "--quant-input", "--quant-output")
NAMES = ("zero", 'o"ne', "two \\", "trois é", "four", "five", "six", "seven", "eight", "??/nine")
MODES = [
    *((chip, mode) for chip in ("cv180x", "cv181x", "cv183x") for mode in (("int8",), INTEGERS)),
    *(("bm1684x", mode) for mode in (("f16",), ("int8",), INTEGERS)),
]


@dataclass(frozen=True)
class Deployed:
    """A compiled file and its folder for one chip, and the runtime that runs them."""

    chip: str
    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / ("net.bmodel" if self.chip == "bm1684x" else "net.cvimodel")

    @property
    def bundle(self) -> Path:
        return self.folder / "out"

    def compile(self, network: Path, *said: str | Path) -> None:
        done = tpuc("compile", network, "--chip", self.chip, *said, "-o", self.file, "--bundle", self.bundle)
        assert done.returncode == 0, done.stderr

    def runtime(self) -> Runtime:
        """That of BM1684X opens the functional model under one name for all chips; a link leads to the right one."""
        if self.chip != "bm1684x":
            return Runtime(["-lcviruntime"], HERE / "cv18xx" / "runtime")
        models = self.folder / "model"
        models.mkdir()
        (models / "libcmodel.so").symlink_to(vendor_library() / "libcmodel_bm1684x.so")
        return Runtime(["-lbmrt", "-lbmlib"], HERE / "bm1684x" / "runtime", [models])

    def check(self, name: str, values: NDArray[Any], given: bytes) -> None:
        """The programs print of the bytes of `given` what the simulator computes of `values`."""
        image, wanted = self.folder / "image.npz", self.folder / "wanted.npz"
        write_npz(image, {name: values})
        tpuc("run", "--model", self.file, "--input", image, "-o", wanted)
        (self.bundle / "input.bin").write_bytes(given)
        self.runtime().check_both(self.bundle, wanted)


def digit() -> NDArray[np.uint8]:
    return np.load(DIGITS / "digits_eval.npz")["x"][0].reshape(1, 1, 8, 8).astype(np.uint8)


def write_names(folder: Path) -> Path:
    (folder / "names.txt").write_text("\n".join(NAMES), "utf-8")
    return folder / "names.txt"


def in_turn(first: Sequence[object], second: Mapping[str, object], every: int = 2) -> list[ParameterSet]:
    """Every pair; one of so many is quick, in turn."""
    return [
        pytest.param(one, other, marks=() if (at + place) % every == 0 else pytest.mark.slow, id=f"{name}-{label(one)}")
        for place, (name, other) in enumerate(second.items())
        for at, one in enumerate(first)
    ]


def label(value: Any) -> str:
    return value if isinstance(value, str) else "-".join((value[0], *value[1]))


@pytest.mark.parametrize(("run", "said"), in_turn(MODES, {"values": (), "pixels": NORMALIZED}, 3))
def test_both_print_what_the_simulator_gives(
    run: tuple[str, Sequence[str]], said: Sequence[str], tmp_path: Path
) -> None:
    chip, mode = run
    image, made = digit(), Deployed(chip, tmp_path)
    seen = np.load(DIGITS / "digits_calib.npz")["x"].astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=(seen - 3) / 8 if said else seen)
    names = ("--labels", write_names(tmp_path)) if said else ()
    made.compile(DIGITS / "digits.onnx", "--quantize", *mode, *said, *names, "--dataset", tmp_path / "calib.npz")
    meant = (image.astype(np.float32) - 3) / 8 if said else image.astype(np.float32)
    made.check("image", meant, image.tobytes() if said else meant.tobytes())


@pytest.mark.parametrize(("chip", "mode"), [("bm1684x", "f16"), ("cv180x", "bf16")])
def test_it_says_what_is_missing(chip: str, mode: str, tmp_path: Path) -> None:
    made = Deployed(chip, tmp_path)
    made.compile(DIGITS / "digits.onnx", "--quantize", mode)
    (made.bundle / "short.bin").write_bytes(bytes(255))
    runtime = made.runtime()
    program = runtime.build(made.bundle)
    ran = runtime.run([program, "short.bin"], made.bundle)
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, "short.bin has 255 bytes, and input image takes 256")
    assert runtime.run([program], made.bundle).returncode == 2


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
@pytest.mark.parametrize("post", ["classes", "yolox"])
def test_both_print_the_rows_of_the_simulator(chip: str, post: str, tmp_path: Path) -> None:
    made, classes = Deployed(chip, tmp_path), post == "classes"
    network = DIGITS / "digits.onnx" if classes else write_heads(post, tmp_path)
    made.compile(network, "--post", post, "--labels", write_names(tmp_path))
    values = digit().astype(np.float32) if classes else IMAGE["image"]
    made.check("image", values, values.tobytes())


@pytest.mark.parametrize("colors", ["rgb", "bgr"])
def test_colors_are_put_in_order(colors: str, tmp_path: Path) -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (2, 12, 18, 3), np.uint8)
    made = Deployed("cv181x", tmp_path)
    said = ("--mean", "103.9,116.8,123.7", "--scale", "0.017,0.0171,0.0175", "--pixel-format", colors)
    made.compile(network(tmp_path / "net.onnx"), "--quantize", "bf16", *said)
    ordered = (pixels if colors == "rgb" else pixels[..., ::-1]).astype(np.float32)
    mean, scale = np.array([103.9, 116.8, 123.7], np.float32), np.array([0.017, 0.0171, 0.0175], np.float32)
    made.check("image", ((ordered - mean) * scale).transpose(0, 3, 1, 2), pixels.tobytes())


def test_files_that_normalize_take_the_bytes(tmp_path: Path) -> None:
    image, made = digit(), Deployed("cv180x", tmp_path)
    made.compile(DIGITS / "digits.onnx", "--quantize", "bf16", *NORMALIZED, "--fuse-preprocess")
    (said,) = json.loads((made.bundle / "network.json").read_text("utf-8"))["inputs"]
    assert (said["type"], said["scale"]) == ("u8", 1.0)
    made.check(said["name"], image, image.tobytes())


def pictures_network(path: Path) -> Path:
    """A convolution of one picture of 24 x 36."""
    net = Net()
    net.op("Conv", ["image", net.normal("w", (8, 3, 3, 3), 0.2)], "y", pads=[1] * 4, strides=[3, 3])
    return net.save(path, {"image": (1, 3, 24, 36)}, ["y"])


@pytest.mark.parametrize(
    ("chip", "fused"), in_turn(["bm1684x", "cv181x"], {"floats": (), "bytes": ("--fuse-preprocess",)})
)
def test_pictures_and_frames_reach_the_network(chip: str, fused: Sequence[str], tmp_path: Path) -> None:
    """Letterboxed, and put in the order of the network; built by CMake, and by make without libjpeg."""
    pixels = np.random.default_rng(4).integers(0, 256, (50, 40, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.ppm")
    made = Deployed(chip, tmp_path)
    mode = "f16" if chip == "bm1684x" else "bf16"
    made.compile(pictures_network(tmp_path / "net.onnx"), "--quantize", mode, "--preprocess", "yolox", *fused)
    wanted, saved = tmp_path / "wanted.npz", tmp_path / "saved"
    done = tpuc("run", made.file, tmp_path / "a.ppm", "--save-inputs", saved, "-o", wanted)
    assert done.returncode == 0, done.stderr
    (stored,) = saved.iterdir()
    runtime, (values,) = made.runtime(), dict(np.load(wanted)).values()
    order = np.argsort(-values.reshape(-1), kind="stable")[:5].tolist()
    (output,) = json.loads((made.bundle / "network.json").read_text("utf-8"))["outputs"]
    for program in (runtime.build_by_cmake(made.bundle), runtime.build_by_make(made.bundle)):
        for given in (["../a.ppm"], ["--frames", "2", "../a.ppm"], ["--stored", str(stored)]):
            ran = runtime.run([program, *given], made.bundle)
            assert ran.returncode == 0, ran.stderr
            assert [int(row[0]) for row in printed(ran.stdout, output["name"], 2)] == order, given
            assert ran.stdout.count("frame ") == (2 if "--frames" in given else 0)
    ran = runtime.run([made.bundle / "run", "a.jpg"], made.bundle)
    assert (ran.returncode, ran.stderr.splitlines()[-1]) == (1, "a.jpg: no such file")


@pytest.mark.parametrize(
    ("chip", "mode", "post"),
    [("bm1684x", "f16", "yolov8-seg"), ("cv181x", "bf16", "yolov8-pose"), ("bm1684x", "f16", "yolov8-obb")],
)
def test_masks_points_and_rotated_boxes_are_those_of_tpuc_run(chip: str, mode: str, post: str, tmp_path: Path) -> None:
    """In pixels of the picture in C++, and in those of the input in Python, which knows no picture."""
    pixels = np.random.default_rng(5).integers(0, 256, (70, 90, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.ppm")
    heads, made, wanted = Heads(), Deployed(chip, tmp_path), tmp_path / "wanted.npz"
    made.compile(
        heads.save(tmp_path / "net.onnx", TASKS[post](heads)),
        "--quantize",
        mode,
        "--post",
        f"{post}{{score=0.5}}",
        "--preprocess",
        "yolo",
    )
    assert tpuc("run", made.file, tmp_path / "a.ppm", "-o", wanted).returncode == 0
    (image,) = json.loads((made.bundle / "network.json").read_text("utf-8"))["inputs"]
    place = placement(Preprocess(**image["preprocess"]), 70, 90, tuple(image["shape"]))
    task = replace(configured(Registry(), "tpuc.postprocess", f"{post}{{score=0.5}}"), every_class=False)
    values, runtime = dict(np.load(wanted)), made.runtime()
    whole = Placement(place.input, place.input, (1.0, 1.0), (0.0, 0.0))
    for command, seen in (([runtime.build(made.bundle)], place), ([sys.executable, "run.py"], whole)):
        ran = runtime.run([*command, "../a.ppm"], made.bundle)
        assert ran.returncode == 0, ran.stderr
        told = [
            line for line in ran.stdout.splitlines() if re.match(r"  \S|\d+ [\d.]+ ", line)
        ]  # not the runtime's own
        check(told, task(values, Sample(({},), seen)))


@pytest.mark.parametrize("chip", ["bm1684x", "cv181x"])
def test_boxes_are_in_pixels_of_the_picture(chip: str, tmp_path: Path) -> None:
    """As `tpuc run` gives them."""
    pixels = np.random.default_rng(5).integers(0, 256, (70, 90, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.ppm")
    made = Deployed(chip, tmp_path)
    made.compile(write_heads("yolox", tmp_path), "--post", "yolox", "--preprocess", "yolo")
    wanted = tmp_path / "wanted.npz"
    assert tpuc("run", made.file, tmp_path / "a.ppm", "-o", wanted).returncode == 0
    (rows,) = (array.reshape(-1, 7) for array in dict(np.load(wanted)).values())
    said = json.loads((made.bundle / "network.json").read_text("utf-8"))
    (image,), (output,) = said["inputs"], said["outputs"]
    place = placement(Preprocess(**image["preprocess"]), 70, 90, tuple(image["shape"]))
    used = rows[rows[:, 2] > 0]
    best = used[np.argsort(-used[:, 2], kind="stable")][:5]
    boxes = place.to_image(best[:, 3:] * np.tile(image["shape"][:1:-1], 2))
    runtime = made.runtime()
    ran = runtime.run([runtime.build(made.bundle), "../a.ppm"], made.bundle)
    assert ran.returncode == 0, ran.stderr
    found = [[float(value) for value in row[2:6]] for row in printed(ran.stdout, output["name"], 6)]
    assert len(found) == len(boxes) > 0
    np.testing.assert_allclose(found, boxes, rtol=1e-4, atol=1e-3)
