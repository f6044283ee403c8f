"""Cycles, DDR traffic and memory of networks on every chip and mode, beside the floor and the vendor's figures.

python benchmarks/traffic.py --model-data DIR [--chip CHIP] [--update] [NAME ...]

Everything here is deterministic. `--update` writes the figures into benchmarks/figures.json; without it they are
compared with that file. `--chip`: of that chip alone. Nothing is run with real data: int8 ranges come from one random
sample.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import TpucError
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary
from tpuc_driver.session.modes import needs_calibration
from tpuc_driver.session.values import Built
from tpuc_profile.analysis import analyze

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.definitions import DEFINITIONS
from tests.models import resnet8

ROOT = Path(__file__).resolve().parents[1]
FIGURES = Path(__file__).with_name("figures.json")
ARENA = "activations"
MODES = {"bm1684x": ("f32", "f16", "int8"), "cv183x": ("bf16", "int8")}
ENDS = "int8-ends"
"""int8 with int8 inputs and outputs, of the networks that `definitions.py` makes."""
TINY = {
    "resnet8": resnet8.SOURCE,
    "kws": Path("tflite") / "mlperf_tiny" / "kws01_dscnn_float32.tflite",
    "vww": Path("tflite") / "mlperf_tiny" / "vww01_mobilenet025_96_float32.tflite",
}
FILES = {
    "mnist": "onnx/mnist.onnx",
    "mobilenet_v1_0.25_128": "onnx/mobilenet_v1_0.25_128_bn.onnx",
    "mobilenet_v2_dequant": "onnx/mobilenet_v2_1.0_224_dequant.onnx",
    "blazeface": "onnx/blazeface.onnx",
    "ultraface_slim_320": "onnx/ultraface_slim_320.onnx",
    "yunet_n_320": "onnx/yunet_n_320.onnx",
    "yolox_nano_416": "onnx/yolox_nano_416.onnx",
}
CAFFE = {
    "lenet": ("lenet_mnist/deploy.prototxt", "lenet.caffemodel"),
    "squeezenet": ("squeezenet_v1.0_deepcompressed/deploy.prototxt", "squeezenet_v1.0.caffemodel"),
    "ultraface_caffe": ("ultraface_slim_320/slim-320.prototxt", "slim-320.caffemodel"),
}
TFLITE = {
    "mobilenet_v2_quant": "mobilenet_v2_1.0_224_quant.tflite",
    "ad": "mlperf_tiny/ad01_autoencoder_float32.tflite",
}
NAMES = ("digits", *TINY, *FILES, *CAFFE, *TFLITE, *DEFINITIONS)
CELLS = ("bm1684x f32", "bm1684x f16", "bm1684x int8", "cv183x int8", "cv183x bf16")
_VENDOR: dict[str, tuple[int | None, ...]] = {
    "resnet8": (34665, 16146, 9636, 27170, 95550),
    "kws": (21562, 23912, 10862, 15340, 29510),
    "vww": (94223, 98330, 31139, 39195, 112450),
    "blazeface": (272777, 202204, 158808, 146900, 363350),
    "resnet50": (5014417, 1450846, 609213, 7001150, 20744750),
    "ad": (23787, 16547, 13967, 26650, 55965),
    "squeezenet": (None, 236398, 176505, None, None),
    "ultraface_caffe": (None, 247251, 229443, None, None),
    "lenet": (None, 23594, 16393, None, None),
    "mnist": (None, 5235, 7000, None, None),
    "mobilenet_v1_0.25_128": (None, 143626, 61803, None, None),
    "mobilenet_v2_dequant": (None, 591461, 201005, None, None),
    "ultraface_slim_320": (None, 357957, 362269, None, None),
    "yunet_n_320": (None, 237373, 254346, None, None),
    "yolox_nano_416": (None, 1468875, 692380, None, None),
}
VENDOR = {name: dict(zip(CELLS, cycles, strict=True)) for name, cycles in _VENDOR.items()}
"""Cycles of the vendor's compiler on its own timing model (the profile `vendor`), whole network, batch 1."""

Figures = dict[str, int]


def network_file(name: str, data: Path | None, folder: Path, batch: int = 1) -> Path:
    """The file of a network; those that are made are written into `folder`, for that many samples at once."""
    if name == "digits":
        return ROOT / "examples" / "digits" / "digits.onnx"
    if name in DEFINITIONS:
        path = folder / f"{name}.onnx"
        path.write_bytes(DEFINITIONS[name](batch).SerializeToString())
        return path
    if data is None:
        raise SystemExit(f"{name} needs --model-data DIR")
    if name in TINY:
        path = folder / f"{name}.onnx"
        path.write_bytes(resnet8.from_tflite(data / TINY[name]).SerializeToString())
        return path
    if name in CAFFE:
        return data / "caffe" / CAFFE[name][0]
    return data / "tflite" / TFLITE[name] if name in TFLITE else data / FILES[name]


def source_options(name: str, path: Path, batch: int = 1) -> dict[str, Any]:
    """What else `transform` needs: the weights of a Caffe network, and the batch of what is not made for it."""
    if name in CAFFE:
        return {"model_data": path.with_name(CAFFE[name][1]), "batch": batch}
    return {"batch": batch} if batch > 1 and name not in DEFINITIONS else {}


def compiled(
    name: str, path: Path, chip: str, mode: str, folder: Path, batch: int = 1, cores: int = 1
) -> tuple[Session, Built]:
    """A session that has built the file of a network, and what it built."""
    session = Session(chip=chip, quantize="int8" if mode == ENDS else mode, cores=cores)
    boundary = Boundary(quant_input=True, quant_output=True) if mode == ENDS else None
    module = session.transform(path, **source_options(name, path, batch))
    table: Any = None
    if needs_calibration(session.mode, module):
        random = np.random.default_rng(0)
        samples = folder / "samples.npz"
        np.savez(
            samples, **{spec.name: random.uniform(0, 1, spec.shape).astype(np.float32) for spec in inputs_of(module)}
        )
        table = session.calibrate(module, dataset=samples, method="max", options={"tune_num": 0, "bias_num": 0})
    return session, session.build(module, table, boundary=boundary)


def measure(name: str, path: Path, chip: str, mode: str, folder: Path) -> Figures:
    """The figures of one network on one chip in one mode."""
    session, built = compiled(name, path, chip, mode, folder)
    loaded = session.chip.load(built.data)
    constants = (session.chip.description.ddr_base, loaded.memory["weights"])
    analysis = analyze(loaded, loaded.timeline(session.chip.profiles[0]), constants)
    plan = built.memory_plan
    assert plan is not None
    arena = next(pool for pool in plan.pools if pool.name == ARENA)
    ends = sum(info.size_bytes for info in (*loaded.inputs, *loaded.outputs))
    return {
        "cycles": analysis.timeline.cycles,
        "ddr_bytes": analysis.read_bytes + analysis.written_bytes,
        "floor_bytes": analysis.weight_bytes + ends,
        "lmem_bytes_per_lane": analysis.lmem_peak_bytes,
        "arena_bytes": arena.peak_bytes,
        "arena_bound_bytes": arena.bound_bytes,
    }


def row(name: str, chip: str, mode: str, figures: Mapping[str, int]) -> str:
    """One line of the table."""
    vendor = VENDOR.get(name, {}).get(f"{chip} {mode}")
    ratio = f"{figures['cycles'] / vendor:8.2f}" if vendor else " " * 8
    return (
        f"{name:22} {chip:8} {mode:9} {figures['cycles']:>11,} {ratio} {figures['ddr_bytes']:>12,} "
        f"{figures['ddr_bytes'] / max(1, figures['floor_bytes']):7.2f} {figures['lmem_bytes_per_lane']:>8,} "
        f"{figures['arena_bytes']:>11,} {figures['arena_bytes'] / max(1, figures['arena_bound_bytes']):7.3f}"
    )


def changes(known: Mapping[str, int], figures: Mapping[str, int]) -> str:
    """What differs from the committed figures."""
    return ", ".join(
        f"{key} {known[key]:,} -> {value:,}" for key, value in figures.items() if known.get(key, value) != value
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path)
    parser.add_argument("--chip", choices=MODES)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("names", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    committed: dict[str, dict[str, Figures]] = json.loads(FIGURES.read_text()) if FIGURES.exists() else {}
    print(f"{'network':22} {'chip':8} mode           cycles / vendor    DDR bytes / floor     LMEM       arena / bound")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        for name in arguments.names:
            path = network_file(name, arguments.model_data, folder)
            for chip, modes in MODES.items():
                if arguments.chip not in (None, chip):
                    continue
                for mode in (*modes, ENDS) if name in DEFINITIONS else modes:
                    try:
                        figures = measure(name, path, chip, mode, folder)
                    except TpucError as error:
                        print(f"{name:22} {chip:8} {mode:9} {error}", flush=True)
                        committed.get(name, {}).pop(f"{chip} {mode}", None)
                        continue
                    print(row(name, chip, mode, figures), flush=True)
                    known = committed.get(name, {}).get(f"{chip} {mode}", {})
                    if known and changes(known, figures):
                        print(f"  {changes(known, figures)}")
                    committed.setdefault(name, {})[f"{chip} {mode}"] = figures
            if arguments.update:
                FIGURES.write_text(json.dumps(committed, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
