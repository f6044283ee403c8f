"""Processor time of MobileNetV2 in int8 as C on this machine, beside ONNX Runtime on one thread, and their ratio.

python benchmarks/c_speed.py --model-data DIR [--flags=-march=native]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from tpuc_driver.session import Boundary, Session

SHAPE = (1, 3, 224, 224)
SAMPLES, TIMES = 20, 3
RUNTIME, TOOL = (import_module(name) for name in ("onnxruntime", "onnxruntime.quantization"))
"""Which state no types."""


class _Random:
    """Four samples, which are enough for a network whose time alone counts."""

    def __init__(self, name: str) -> None:
        generator = np.random.default_rng(0)
        self.rows = iter([{name: generator.standard_normal(SHAPE, np.float32)} for _ in range(4)])

    def set_range(self, start_index: int, end_index: int) -> None:
        """Asked for by the tool; all samples are read."""

    def get_next(self) -> dict[str, Any] | None:
        return next(self.rows, None)


def fastest(action: Callable[[], float]) -> float:
    """Milliseconds per sample, the least of several runs."""
    return min(action() for _ in range(TIMES)) * 1000 / SAMPLES


def c_milliseconds(network: Path, folder: Path, flags: list[str]) -> float:
    """Of the program that a folder of C comes with, as gcc -O3 makes it."""
    session = Session(chip="c")
    session.compile(network, folder / "net", boundary=Boundary(float_input=True, float_output=True))
    (lib,), (operators,) = (folder / "net").glob("*_lib0.c"), (folder / "net").glob("*_operators.c")
    sources = [lib.name, operators.name, "main.c"]
    command = ["gcc", "-std=c99", "-O3", *flags, "-o", "program", *sources, "-lm"]
    subprocess.run(command, cwd=folder / "net", check=True)
    generator = np.random.default_rng(1)
    size = int(np.prod(SHAPE)) * 4
    data = generator.random(SAMPLES * size // 4, np.float32).tobytes()

    def run() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        subprocess.run([folder / "net" / "program"], input=data, stdout=subprocess.DEVNULL, check=True)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    return fastest(run)


def runtime_milliseconds(network: Path, folder: Path) -> float:
    """Of ONNX Runtime with the float network quantized by its own tool, all convolutions in integers."""
    target, options = folder / "quantized.onnx", RUNTIME.SessionOptions()
    options.intra_op_num_threads = 1
    name = RUNTIME.InferenceSession(str(network)).get_inputs()[0].name
    types = {"activation_type": TOOL.QuantType.QUInt8, "weight_type": TOOL.QuantType.QInt8}
    TOOL.quantize_static(str(network), str(target), _Random(name), per_channel=True, **types)
    session = RUNTIME.InferenceSession(str(target), options)
    sample = {name: np.random.default_rng(1).random(SHAPE, np.float32)}
    session.run(None, sample)

    def run() -> float:
        start = time.process_time()
        for _ in range(SAMPLES):
            session.run(None, sample)
        return time.process_time() - start

    return fastest(run)


def main() -> None:
    """Print both and the ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--flags", nargs="*", default=[])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        ours = c_milliseconds(given.model_data / "tflite/mobilenet_v2_1.0_224_quant.tflite", Path(name), given.flags)
        theirs = runtime_milliseconds(given.model_data / "onnx/mobilenet_v2_1.0_224_dequant.onnx", Path(name))
    print(f"C {ours:.1f} ms, ONNX Runtime {theirs:.1f} ms of processor time per picture: {ours / theirs:.1f} times")


if __name__ == "__main__":
    main()
