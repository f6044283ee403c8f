"""Every inner value of networks on a chip of the CV18xx family: evaluation, simulator and vendor's functional model.

python benchmarks/inner_values.py --model-data DIR [--oracle DIR] --chip CHIP [--mode MODE] [NAME ...]

Prints how many integer and float tensors are equal, and seconds of building, simulating and of the vendor's model.
Waits are proved for each file. The first difference ends the run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.traffic import CAFFE, NAMES, network_file
from tests.chips.cv18.networks import MODES, Arrays, build_file, check
from tests.chips.cv18.oracle_runner import run_file
from tests.chips.cv18.vendor import assert_same_bits

KNOWN = ("digits", "mnist", "resnet8", "kws", "vww", "ad", "blazeface", "mobilenet_v1_0.25_128", "yunet_n_320")


def compare(name: str, chip: str, mode: str, data: Path, oracle: Path | None) -> str:
    """One row of the table."""
    seconds = {"simulator": 0.0, "vendor": 0.0}
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        start = time.perf_counter()
        built = build_file(network_file(name, data, folder), name, 1, chip, mode, data, folder)
        seconds["build"] = time.perf_counter() - start

        def run(file: bytes) -> Arrays:
            start = time.perf_counter()
            loaded = built.session.chip.load(file)
            loaded.check()
            ours = loaded.run(built.inputs)
            seconds["simulator"] += time.perf_counter() - start
            if oracle is None:
                return ours
            start = time.perf_counter()
            path = folder / "model.cvimodel"
            path.write_bytes(file)
            theirs = run_file(oracle, path, dict(built.inputs))
            seconds["vendor"] += time.perf_counter() - start
            assert_same_bits(ours, theirs)
            return theirs

        integers, floats = check(built, mode, run)
    times = ", ".join(f"{what} {value:.1f} s" for what, value in seconds.items())
    return f"{name:24} {chip} {mode}: {integers} integer and {floats} float tensors equal; {times}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--oracle", type=Path)
    parser.add_argument("--chip", required=True)
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("names", nargs="*", choices=[*(name for name in NAMES if name not in CAFFE), []], default=KNOWN)
    arguments = parser.parse_args()
    for name in arguments.names:
        for mode in arguments.mode or MODES:
            print(compare(name, arguments.chip, mode, arguments.model_data, arguments.oracle), flush=True)


if __name__ == "__main__":
    main()
