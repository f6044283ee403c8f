"""Deploy and simulation times of real networks on BM1684X, int8, beside the vendor's functional model.

python benchmarks/networks.py --model-data DIR [--oracle DIR] [NAME ...]

Prints seconds (best of 3, one BLAS thread) and ratios. Nothing here gates a test: times are the machine's.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.resnet50 import build

NETWORKS = (
    "mnist",
    "mobilenet_v1_0.25_128_bn",
    "mobilenet_v2_1.0_224_dequant",
    "blazeface",
    "ultraface_slim_320",
    "yunet_n_320",
    "yolox_nano_416",
    "resnet50",
)


def best(action: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """Seconds of the fastest of several runs, and the last result."""
    seconds, result = float("inf"), None
    for _ in range(times):
        start = time.perf_counter()
        result = action()
        seconds = min(seconds, time.perf_counter() - start)
    return seconds, result


def measure(path: Path, oracle: Path | None) -> str:
    """One row of the table."""
    session = Session(chip="bm1684x", quantize="int8")
    transform, module = best(lambda: session.transform(path), 1)
    specs = inputs_of(module)
    random = np.random.default_rng(0)
    inputs = {spec.name: random.uniform(0, 1, spec.shape).astype(np.float32) for spec in specs}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "samples.npz", **inputs)
        table = session.calibrate(module, dataset=Path(folder) / "samples.npz", options={"tune_num": 0})
        file = Path(folder) / "model.bmodel"
        deploy, report = best(lambda: session.deploy(module, file, calibration_table=table))
        loaded = session.chip.load(file.read_bytes())
        simulate, outputs = best(lambda: loaded.run(inputs))
        vendor = float("nan")
        if oracle is not None:
            sys.path.insert(0, str(oracle))
            from run_file import run_file

            vendor, theirs = best(lambda: run_file(str(file), inputs, 600), 1)
            for name, array in outputs.items():
                assert np.allclose(array.reshape(theirs[name].shape), theirs[name], atol=1e-4 * np.ptp(array))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{path.stem:30} {transform:9.2f} {deploy:8.2f} {simulate:9.3f} {vendor:8.2f} {vendor / simulate:7.1f} "
        f"{report.cycles:11,} {peak:8.0f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--oracle", type=Path)
    parser.add_argument("names", nargs="*", default=NETWORKS)
    arguments = parser.parse_args()
    print(f"{'network':30} transform   deploy  simulate   vendor   ratio      cycles      MiB")
    for name in arguments.names:
        path = arguments.model_data / "onnx" / f"{name}.onnx"
        if name == "resnet50":
            path = Path(tempfile.mkdtemp()) / "resnet50.onnx"
            path.write_bytes(build().SerializeToString())
        print(measure(path, arguments.oracle), flush=True)


if __name__ == "__main__":
    main()
