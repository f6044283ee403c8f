"""Removes and weakens every wait of compiled networks in turn: which removals does the proof refuse, which matter?

python benchmarks/hazards.py FILE.bmodel FILE.cvimodel ...
python benchmarks/hazards.py --model-data DIR [NAME ...]

Every mutant runs in the simulator in both extreme orders, from memories of random bytes. A mutant that changes a byte
and passes the proof is named, and the exit code is 1. `--every N` takes each N-th mutant.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tpuc.api import Chip
from tpuc_driver.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.chips.bm1684x.subject import FileSubject as Bm1684x
from tests.chips.cv18.subject import FileSubject as Cv18Chip
from tests.chips.mutants import Subject, Tally, try_mutants

NETWORKS = {
    "resnet8": "tflite/mlperf_tiny/ic01_resnet8_float32.tflite",
    "kws": "tflite/mlperf_tiny/kws01_dscnn_float32.tflite",
    "blazeface": "onnx/blazeface.onnx",
}
SUBJECTS: Mapping[str, Callable[[Any, bytes], Subject]] = {
    ".bmodel": lambda _, data: Bm1684x(data),
    ".cvimodel": lambda chip, data: Cv18Chip(data, chip.target),
}
MODES = (("bm1684x", "f16"), ("cv183x", "bf16"))


def compiled(model_data: Path, names: list[str]) -> Iterator[tuple[str, Chip, bytes]]:
    """Networks on both chips: a label, the chip, the bytes of the file."""
    for name in names or [*NETWORKS]:
        for chip, mode in MODES:
            session = Session(chip=chip, quantize=mode)
            data = session.build(session.transform(model_data / NETWORKS[name])).data
            yield f"{name} {chip} {mode}", session.chip, data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"compiled files, or of {', '.join(NETWORKS)}")
    parser.add_argument("--model-data", type=Path, metavar="DIR", help="folder with the networks")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="take each N-th mutant")
    arguments = parser.parse_args()
    if arguments.model_data is not None:
        programs = compiled(arguments.model_data, arguments.names)
    else:
        files = [Session().opened(Path(name)) for name in arguments.names]
        programs = ((file.path.name, file.chip, file.data) for file in files)
    total, missed = Tally(), list[str]()
    for label, chip, data in programs:
        start = time.perf_counter()
        tally = try_mutants(SUBJECTS[chip.description.suffix](chip, data), arguments.every, missed)
        total += tally
        print(f"{label}: {tally} ({time.perf_counter() - start:.0f} s)", flush=True)
    print(f"total: {total}")
    for sentence in missed:
        print(f"missed: {sentence}")
    return 1 if total.missed else 0


if __name__ == "__main__":
    sys.exit(main())
