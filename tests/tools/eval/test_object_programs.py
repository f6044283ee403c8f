"""Programs of a deployment folder print the masks, points, and rotated boxes that `tpuc run` finds."""

from __future__ import annotations

import contextlib
import io
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.registry import Registry
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_eval.options import configured
from tpuc_eval.protocols import Detections, Sample
from tpuc_images.placing import Placement

from tests.tools.eval.test_fused_boxes import IMAGE, SIZE, Heads
from tests.tools.eval.test_yolo_tasks import HALF, MASKS, POINTS, TASKS

DRIVER = """
#include "network.hpp"
// Shows values from files, one for each output, of a picture of 120 x 60 that is half as large in the input.
int main() {
  std::vector<std::vector<float>> values;
  for (const network::Output &output : network::OUTPUTS) {
    std::ifstream file("values" + std::to_string(values.size()), std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    values.push_back(network::values_of(output, bytes.data(), output.count));
  }
  picture::Placement at;
  at.across = at.down = 0.5, at.left = 2, at.top = 1, at.width = 120, at.height = 60;
  network::show(values, &at);
}
"""
WHOLE = Sample(({},), Placement(SIZE, SIZE, (1.0, 1.0), (0.0, 0.0)))
"""The input itself."""
CV181X, BM1684X = ("cv181x", "bf16", "cvimodel"), ("bm1684x", "f16", "bmodel")
CHIPS = {"yolov8-seg": CV181X, "yolov8-pose": BM1684X, "yolov8-obb": CV181X}


def rows(heads: Heads, name: str) -> Sequence[str]:
    """Ten objects that the network has chosen, of two classes: box, score, class, and further values."""
    numbers = np.random.default_rng(6)
    centers, sides = numbers.uniform(10, 30, (10, 2)), numbers.uniform(4, 20, (10, 2))
    boxes = [centers, sides] if name == "yolov8-obb" else [centers - sides / 2, centers + sides / 2]
    count = {"yolov8-seg": MASKS, "yolov8-pose": POINTS, "yolov8-obb": 1}[name]
    more = numbers.uniform(-1, 1, (10, count)) * (30 if name == "yolov8-pose" else 1)
    scores = np.linspace(0.5, 0.95, 10)[:, None]
    table = np.concatenate([*boxes, scores, np.arange(10)[:, None] % 2, more], axis=1, dtype=np.float32)
    image = heads.op("ReduceMean", heads.op("Mul", "image zero", "nothing"), "none", axes=[1, 2, 3], keepdims=0)
    heads.constant("zero", np.zeros((1, 1, 1, 1), np.float32))
    output = heads.op("Add", f"{heads.constant('table', table[None])} {image}", "rows")
    return [output, *([heads.map("prototypes", MASKS, 4)] if name == "yolov8-seg" else [])]


def bundle(name: str, folder: Path, *, is_chosen: bool) -> tuple[Path, Mapping[str, NDArray[Any]]]:
    """A deployment folder, and what the simulator gives."""
    heads, (chip, mode, suffix) = Heads(), BM1684X if is_chosen and name != "yolov8-pose" else CHIPS[name]
    network = heads.save(folder / "net.onnx", rows(heads, name) if is_chosen else TASKS[name](heads))
    given = ["compile", str(network), "--chip", chip, "--quantize", mode, "--post", f"{name}{{score=0.6}}"]
    file = folder / f"net.{suffix}"
    assert main([*given, "-o", str(file), "--bundle", str(folder / "out")]) == 0
    np.savez(folder / "x.npz", allow_pickle=False, **IMAGE)
    return folder / "out", Session(chip=chip).run(file, [folder / "x.npz"])


def objects(lines: Sequence[str]) -> list[tuple[list[float], list[str]]]:
    """Class, score, and box of each object, and the lines on its points or its mask."""
    found: list[tuple[list[float], list[str]]] = []
    for line in lines:
        if line.startswith("  "):
            found[-1][1].append(line)
        else:
            found.append(([float(word) for word in line.split()], []))
    return found


def check(lines: Sequence[str], wanted: Detections) -> None:
    found = objects(lines)
    assert len(found) == min(5, len(wanted.scores)) > 2
    for place, (numbers, more) in enumerate(found):
        ends = wanted.boxes[place] if wanted.corners is None else wanted.corners[place].reshape(-1)
        values = [wanted.classes[place], wanted.scores[place], *ends]
        np.testing.assert_allclose(numbers, values, rtol=1e-6, atol=1e-5)
        if wanted.points is not None:
            points = [[float(word) for word in line.split()] for line in more]
            np.testing.assert_allclose(points, wanted.points[place], rtol=1e-6, atol=1e-5)
        elif wanted.masks is not None:
            assert more[0].split()[2] == str(wanted.masks[place].pixels.sum())


@pytest.mark.parametrize("is_chosen", [False, True], ids=["columns", "rows"])
@pytest.mark.parametrize("name", list(CHIPS))
def test_both_programs_choose_what_tpuc_run_chooses(
    name: str, is_chosen: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, outputs = bundle(name, tmp_path, is_chosen=is_chosen)
    task = replace(configured(Registry(), "tpuc.postprocess", f"{name}{{score=0.6}}"), every_class=False)
    monkeypatch.syspath_prepend(str(folder))
    try:
        network = import_module("network")
        stored = list(outputs.values())
        assert [array.size for array in stored] == [one["count"] for one in network.OUTPUTS]
        assert all(one["type"] == "f32" for one in network.OUTPUTS)
        with contextlib.redirect_stdout(io.StringIO()) as told:
            network.show([(array.astype(np.float32).tobytes(), array.size) for array in stored])
        check(told.getvalue().splitlines(), task(outputs, WHOLE))
    finally:
        for module in ("network", "objects", "picture"):
            sys.modules.pop(module, None)
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    for place, array in enumerate(stored):
        (folder / f"values{place}").write_bytes(array.astype(np.float32).tobytes())
    (folder / "driver.cpp").write_text(DRIVER, "utf-8")
    flags = ["-std=c++17", "-ffp-contract=off", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["g++", *flags, "driver.cpp", "-o", "driver"], cwd=folder, check=True)
    ran = subprocess.run([folder / "driver"], cwd=folder, check=True, capture_output=True, text=True)
    wanted = task(outputs, HALF)
    check(ran.stdout.splitlines(), wanted)
    if wanted.masks is not None:
        pixels = wanted.masks[0].pixels
        head = f"P5\n{pixels.shape[1]} {pixels.shape[0]}\n255\n".encode()
        assert (folder / "mask1.pgm").read_bytes() == head + (pixels * np.uint8(255)).tobytes()
