"""What installing costs and how long compiling takes, written to benchmarks/install.json.

python benchmarks/install.py --model-data DIR

The wheel is built and installed into an environment of its own. Sizes are those of installed files; times are processor
time of `tpuc compile` as a command, from its start to the file, the median of three.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.traffic import network_file  # noqa: E402  # it lies beside this file

RESULTS = Path(__file__).with_suffix(".json")
DIGITS = ROOT / "examples" / "digits"
NETWORKS = ("mobilenet_v2_dequant", "yolox_nano_416", "resnet50")
"""Compiled in f16, which needs no samples."""
TIMES = 3


def seconds(command: Sequence[str], folder: Path) -> float:
    """Processor time of a command and its children, the median of several runs."""
    taken: list[float] = []
    for _ in range(TIMES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=folder, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return round(statistics.median(taken), 1)


def installed_bytes(site: Path, first: str = "") -> int:
    """Bytes of all files below `site` in folders whose names begin so."""
    files = [path for path in site.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return sum(path.stat().st_size for path in files if path.relative_to(site).parts[0].startswith(first))


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path, required=True)
    data = parser.parse_args().model_data.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip"]
        subprocess.run([*pip, "wheel", "-q", "--no-deps", "-w", str(folder), str(ROOT)], check=True)
        (wheel,) = folder.glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "environment")], check=True)
        python = str(folder / "environment" / "bin" / "python")
        subprocess.run([*pip, "--python", python, "install", "-q", str(wheel)], check=True)
        (site,) = (folder / "environment").glob("lib/python*/site-packages")
        tpuc = str(folder / "environment" / "bin" / "tpuc")
        samples = ["--quantize", "int8", "--dataset", str(DIGITS / "digits_calib.npz")]
        digits = ["compile", str(DIGITS / "digits.onnx"), "--chip", "bm1684x", "-o", "digits.bmodel", *samples]
        times = {"digits int8": seconds([tpuc, *digits], folder)}
        for network in NETWORKS:
            path = network_file(network, data, folder, 1)
            command = ["compile", str(path), "--chip", "bm1684x", "--quantize", "f16", "-o", "network.bmodel"]
            times[f"{network} f16"] = seconds([tpuc, *command], folder)
        found = {
            "wheel_bytes": wheel.stat().st_size,
            "tpuc_bytes": installed_bytes(site, "tpuc"),
            "all_bytes": installed_bytes(site),
            "packages": len(list(site.glob("*.dist-info"))),
            "compile_seconds": times,
        }
    RESULTS.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
