"""Calibration against ONNX Runtime: images per second of whole calibrations, side by side.

`python benchmarks/calibration.py --model-data DIR`: 100 images of ResNet-8, 40 of mobilenet_v2 and 32 random ones of
ResNet-50 with random weights, each method of ours alone and with tuning and bias correction as `tpuc calibrate` does,
in one thread; ONNX Runtime with its own default. Then the peak memory for 32 and for 320 images, the time of a search
for float layers, and processor time beside the vendor's compiler, row by row of the accuracy table. `--only NAME`
measures one of resnet8, mobilenet_v2, resnet50, memory, search, vendor. `--tools DIR` is where the vendor's
`model_transform` and `run_calibration` are: networks that they read are calibrated by both on this machine, one after
the other, and the time of the others is that of the table times what this machine takes longer for those.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tpuc.ir.preprocess import Preprocess
from tpuc_accuracy.mixed_precision.timed_search import search_quantize_table
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.work import one_blas_thread
from tpuc_images.images import read_image

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.resnet50 import build
from tests.models import resnet8
from tests.models.datasets import calibration_set
from tests.models.rows import ROWS, load

PARTS = ("resnet8", "mobilenet_v2", "resnet50", "memory", "search", "vendor")
METHODS = {"max": "MinMax", "kld": "Entropy", "percentile": "Percentile"}

VENDOR_SECONDS = {
    "mnist": 2.2,
    "ic01": 3.3,
    "kws01": 3.2,
    "vww01": 3.0,
    "ad01": 7.9,
    "mobilenet_v1": 2.6,
    "mobilenet_v2": 10.7,
    "blazeface": 6.0,
    "ultraface": 8.6,
    "yunet": 15.3,
    "yolox": 49.9,
    "squeezenet": 14.1,
    "lenet": 2.2,
}
"""Processor time of TPU-MLIR 1.30.2 (user and system) for `run_calibration` with its defaults on the same samples, in
one thread of a shared two-core server, start included. Other machines are faster or slower for both.
"""
READ = (".onnx",)
"""What the vendor's tools read without packages that they do not bring, and calibrate in float."""


class Reader:
    """Feeds samples to ONNX Runtime's calibrators."""

    def __init__(self, name: str, images: Any) -> None:
        self._rows = iter([{name: row} for row in images])

    def get_next(self) -> Any:
        return next(self._rows, None)

    def __iter__(self) -> Any:
        return self._rows


def theirs(model: Path, name: str, images: Any, method: str, work: Path) -> float:
    from onnxruntime.quantization.calibrate import CalibrationMethod, create_calibrator

    start = perf_counter()
    calibrator = create_calibrator(
        str(model), augmented_model_path=str(work / "augmented.onnx"), calibrate_method=CalibrationMethod[method]
    )
    calibrator.collect_data(Reader(name, images))
    calibrator.compute_data()
    return perf_counter() - start


def ours(session: Session, module: Any, samples: Path, method: str, options: dict[str, Any]) -> float:
    start = perf_counter()
    with one_blas_thread():
        session.calibrate(module, dataset=samples, method=method, options=options)
    return perf_counter() - start


def measure(title: str, model: Path, images: Any, work: Path) -> None:
    session = Session()
    module = session.transform(model)
    (spec,) = inputs_of(module)
    images = images.reshape(-1, *spec.shape)
    samples = work / "samples.npz"
    np.savez(samples, **{spec.name: images})
    print(f"\n{title}: {len(images)} images")
    head = ("ours img/s", "with all img/s", "ort img/s", "ours / ort time", "all / ort time")
    print(f"{'method':12}" + "".join(f"{text:>18}" for text in head))
    for method, other in METHODS.items():
        plain = ours(session, module, samples, method, {"tune_num": 0, "bias_num": 0})
        everything = ours(session, module, samples, method, {})
        reference = theirs(model, spec.name, images, other, work)
        speeds = [len(images) / seconds for seconds in (plain, everything, reference)]
        figures = [f"{speed:.1f}" for speed in speeds]
        figures += [f"{plain / reference:.2f}", f"{everything / reference:.2f}"]
        print(f"{method:12}" + "".join(f"{figure:>18}" for figure in figures), flush=True)


def resnet50(folder: Path, count: int) -> tuple[Path, Any]:
    """The network with random weights, and random images."""
    model = folder / "resnet50.onnx"
    model.write_bytes(build().SerializeToString())
    return model, np.random.default_rng(0).standard_normal((count, 1, 3, 224, 224), np.float32)


def peak_memory(count: int) -> int:
    """Megabytes that a calibration of ResNet-50 with all stages takes in a process of its own."""
    command = [sys.executable, __file__, "--child", str(count), "--model-data", "."]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


def calibrate_in_child(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model, images = resnet50(Path(folder), 1)
        rows = Path(folder) / "rows"
        rows.mkdir()
        for index in range(count):
            np.save(rows / f"{index:03}.npy", images[0] * np.float32(1 + index / count))
        session = Session()
        with one_blas_thread():
            session.calibrate(session.transform(model), dataset=rows)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)


def search(model: Path, images: Any, work: Path) -> None:
    session = Session(chip="bm1684x", quantize="int8")
    module = session.transform(model)
    (spec,) = inputs_of(module)
    samples = work / "samples.npz"
    np.savez(samples, **{spec.name: images.reshape(-1, *spec.shape)})
    table = session.calibrate(module, dataset=samples, options={"tune_num": 0, "bias_num": 0})
    start = perf_counter()
    options = {"dataset": str(samples), "input_num": 10, "workers": 2}
    found = search_quantize_table(session, module, table, options=options)
    print(f"\nsearch on mobilenet_v2, 10 images, 2 processes: {perf_counter() - start:.1f} s", end="")
    print(f", {len(found.layers)} layers")


def seconds_of_child(command: Sequence[str | Path], folder: Path, environment: Mapping[str, str]) -> float:
    """Processor time, user and system."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def vendor_seconds(name: str, data: Path, work: Path, tools: Path) -> float:
    """Of the vendor's `run_calibration` with its defaults, in one thread, on the same samples."""
    row = ROWS[name]
    (spec,) = inputs_of(load(row, data, 1))
    folder = work / f"{name}_vendor"
    (folder / "samples").mkdir(parents=True)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    environment = {**os.environ, **one_thread, "PATH": f"{tools}:{os.environ['PATH']}"}
    mlir = folder / f"{name}.mlir"
    shapes = f"[[{','.join(map(str, spec.shape))}]]"
    transform = [tools / "model_transform", "--model_name", name, "--model_def", (data / row.model).absolute()]
    seconds_of_child([*transform, "--input_shapes", shapes, "--mlir", mlir.name], folder, environment)
    (place,) = re.findall(r"top\.Input.*loc\((#loc\d*)\)", mlir.read_text())
    (value,) = re.findall(rf'^{place} = loc\("([^"]+)"', mlir.read_text(), re.MULTILINE)
    samples = row.calibration(data / "data")
    for index, array in enumerate(samples):
        arrays: dict[str, Any] = {value: array.reshape(spec.shape)}
        np.savez(folder / "samples" / f"{index:04}.npz", **arrays)
    options = ["--dataset", "samples", "--input_num", str(len(samples)), "-o", "table"]
    return seconds_of_child([tools / "run_calibration", mlir.name, *options], folder, environment)


def processor_seconds(name: str, data: Path, work: Path) -> float:
    """Of `tpuc calibrate` with its defaults in a process of its own, user and system, start included."""
    row = ROWS[name]
    session, module = Session(), load(row, data, 1)
    (spec,) = inputs_of(module)
    samples = work / name
    samples.mkdir()
    for index, array in enumerate(row.calibration(data / "data")):
        arrays: dict[str, Any] = {spec.name: array.reshape(spec.shape)}
        np.savez(samples / f"{index:04}.npz", **arrays)
    session.save(module, work / f"{name}.mlir")
    arguments = ["calibrate", f"{name}.mlir", "--dataset", name, "-o", f"{name}.table"]
    command = [sys.executable, "-m", "tpuc"]
    # Installed programs have their bytecode.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([*command, "calibrate", "--help"], env=environment, capture_output=True, check=True)
    return seconds_of_child([*command, *arguments], work, environment)


def beside_vendor(data: Path, work: Path, tools: Path | None) -> None:
    """Every row, their sum, and the worst ratio."""
    print(f"\n{'processor seconds':18}{'ours':>8}{'vendor':>8}{'ratio':>8}")
    timed = [name for name in VENDOR_SECONDS if tools is not None and ROWS[name].model.endswith(READ)]
    found: dict[str, float] = {}
    theirs: dict[str, float] = {}
    slower = 1.0
    for name in [*timed, *(name for name in VENDOR_SECONDS if name not in timed)]:
        if tools is not None and name in timed:
            theirs[name] = vendor_seconds(name, data, work, tools)
            slower = sum(theirs.values()) / sum(VENDOR_SECONDS[one] for one in theirs)
        else:
            theirs[name] = VENDOR_SECONDS[name] * slower
        found[name] = processor_seconds(name, data, work)
        print(f"{name:18}{found[name]:8.1f}{theirs[name]:8.1f}{found[name] / theirs[name]:8.2f}", flush=True)
    whole, vendor = sum(found.values()), sum(theirs.values())
    print(f"{'sum':18}{whole:8.1f}{vendor:8.1f}{whole / vendor:8.2f}")
    worst = max(found, key=lambda name: found[name] / theirs[name])
    print(f"worst ratio: {worst}, {found[worst] / theirs[worst]:.2f}")
    if timed:
        print(f"this machine takes {slower:.2f} times the seconds of the table; measured here: {', '.join(timed)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--tools", type=Path, help="folder of the vendor's programs")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        calibrate_in_child(arguments.child)
        return
    data: Path = arguments.model_data
    parts = PARTS if arguments.only is None else (arguments.only,)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        if "resnet8" in parts:
            small = work / "resnet8.onnx"
            small.write_bytes(resnet8.from_tflite(data / resnet8.SOURCE).SerializeToString())
            measure("ResNet-8", small, calibration_set("ic01", data), work)
        preprocess = Preprocess(mean=(127.5,) * 3, scale=(1 / 127.5,) * 3, pixel_format="rgb")
        files = sorted((data / "data" / "imagenet_calib").glob("*.JPEG"))
        mobilenet = data / "onnx" / "mobilenet_v2_1.0_224_dequant.onnx"
        if "mobilenet_v2" in parts or "search" in parts:
            images = np.concatenate([read_image(file, preprocess, (1, 3, 224, 224)) for file in files])
            if "mobilenet_v2" in parts:
                measure("mobilenet_v2", mobilenet, images, work)
            if "search" in parts:
                search(mobilenet, images, work)
        if "resnet50" in parts:
            measure("ResNet-50, random weights", *resnet50(work, 32), work)
        if "vendor" in parts:
            beside_vendor(data, work, arguments.tools)
        if "memory" in parts:
            few, many = peak_memory(32), peak_memory(320)
            print(f"\npeak memory on ResNet-50: {few} MB with 32 images, {many} MB with 320 ({many / few - 1:+.1%})")


if __name__ == "__main__":
    main()
