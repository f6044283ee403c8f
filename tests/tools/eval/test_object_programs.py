"""Programs of a deployment folder print the masks and points that `tpuc run` finds."""

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
from tests.tools.eval.test_yolo_tasks import HALF, TASKS

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
CHIPS = {"yolov8-seg": ("cv181x", "bf16", "cvimodel"), "yolov8-pose": ("bm1684x", "f16", "bmodel")}


def bundle(name: str, folder: Path) -> tuple[Path, Mapping[str, NDArray[Any]]]:
    """A deployment folder, and what the simulator gives."""
    heads, (chip, mode, suffix) = Heads(), CHIPS[name]
    network = heads.save(folder / "net.onnx", TASKS[name](heads))
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
        values = [wanted.classes[place], wanted.scores[place], *wanted.boxes[place]]
        np.testing.assert_allclose(numbers, values, rtol=1e-6, atol=1e-5)
        if wanted.points is not None:
            points = [[float(word) for word in line.split()] for line in more]
            np.testing.assert_allclose(points, wanted.points[place], rtol=1e-6, atol=1e-5)
        elif wanted.masks is not None:
            assert more[0].split()[2] == str(wanted.masks[place].pixels.sum())


@pytest.mark.parametrize("name", list(CHIPS))
def test_both_programs_choose_what_tpuc_run_chooses(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, outputs = bundle(name, tmp_path)
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
