"""Cycles of networks by the vendor's own timing code, beside our model's and the vendor's compiler's.

python benchmarks/clock.py --oracle DIR [--chip bm1684x|cv186x] [--model-data DIR] [--mode MODE ...] [--batch N ...]
    [--keep DIR] [NAME ...]

For each network, mode and batch: commands, how many the clock times, how many of these have our cost, the totals of
both, their ratio, and the ratio to the vendor's compiler where its cycles are known (batch 1). At the end the geometric
means. Exit status 1: a total differs by more than 1 %, less than 99.5 % of the timed commands agree, or commands that
the clock cannot time have more than 2 % of the cycles.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import TpucError

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import traffic
from benchmarks.transformers import TRANSFORMERS as PLAIN
from benchmarks.windows import Stage
from tests.chips.bm1684x.timing.vendor import vendor_clock
from tests.chips.bm1688.timing.vendor import Clock

TRANSFORMERS = {**PLAIN, "swin": Stage.images}
TOTAL, EQUAL, UNTIMED = 0.01, 0.995, 0.02
"""Largest difference of totals, smallest share of equal commands, largest share of cycles without a cost."""


@contextmanager
def clock(oracle: Path, chip: str = "bm1684x") -> Iterator[Any]:
    """The vendor's clock: a function from a file to its report."""
    if chip != "bm1684x":
        with Clock(oracle) as second:
            yield lambda path: second.report(path, 5)
        return
    module = vendor_clock(oracle)
    with module.Vendor() as vendor:
        yield lambda path: module.clock(path, vendor, 5)


def network_file(name: str, data: Path | None, folder: Path, batch: int) -> Path:
    """The file of a network."""
    if name not in TRANSFORMERS:
        return traffic.network_file(name, data, folder, batch)
    path = folder / f"{name}.onnx"
    path.write_bytes(TRANSFORMERS[name](batch).SerializeToString())
    return path


def row(name: str, chip: str, mode: str, batch: int, report: Any) -> tuple[str, float | None, bool]:
    """A line of the table, the ratio to the vendor's compiler, and whether the clock agrees."""
    commands, untimed = report.sum("commands"), report.sum("untimed")
    equal = report.sum("equal") / max(1, commands - untimed)
    good = abs(report.ratio - 1) <= TOTAL and equal >= EQUAL and report.untimed_share <= UNTIMED
    peer = traffic.VENDOR.get(name, {}).get(f"{chip} {mode}") if batch == 1 else None
    ratio = report.vendor_total / peer if peer else None
    text = (
        f"{name:22} {mode:5} {batch:5} {commands:8} {100 * (1 - untimed / commands):6.2f} {100 * equal:7.2f} "
        f"{report.model_total:>12,} {report.vendor_total:>12,} {report.ratio:7.4f} "
        f"{f'{ratio:7.2f}' if ratio else ' ' * 7}{'' if good else '  DIFFERS'}"
    )
    return text, ratio, good


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--oracle", type=Path, required=True)
    parser.add_argument("--chip", choices=("bm1684x", "cv186x"), default="bm1684x")
    parser.add_argument("--model-data", type=Path)
    parser.add_argument("--mode", action="append", choices=("int8", "f16", "f32", "bf16"))
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--keep", type=Path, help="folder to leave the files in")
    parser.add_argument("--worst", action="store_true", help="commands whose costs differ")
    parser.add_argument("names", nargs="*", default=[*traffic.NAMES, *TRANSFORMERS])
    arguments = parser.parse_args()
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    bad = 0
    print(f"{'network':22} mode  batch commands  timed   equal        model       vendor   ratio    peer")
    with tempfile.TemporaryDirectory() as text, clock(arguments.oracle, arguments.chip) as measure:
        folder = arguments.keep or Path(text)
        for name in arguments.names:
            for batch in arguments.batch or [1]:
                path = network_file(name, arguments.model_data, Path(text), batch)
                for mode in arguments.mode or ["int8", "f16"]:
                    file = folder / f"{name}_{mode}_{batch}.bmodel"
                    try:
                        file.write_bytes(traffic.compiled(name, path, arguments.chip, mode, Path(text), batch)[1].data)
                    except TpucError as error:
                        print(f"{name:22} {mode:5} {batch:5} {error}", flush=True)
                        continue
                    report = measure(file)
                    line, ratio, good = row(name, arguments.chip, mode, batch, report)
                    print(line, flush=True)
                    bad += not good
                    if arguments.worst and report.worst:
                        print(*(f"    {model} -> {cost}  {command}" for model, cost, command in report.worst), sep="\n")
                    if ratio:
                        ratios[mode].append(ratio)
    for mode, values in ratios.items():
        mean = float(np.exp(np.mean(np.log(values))))
        print(f"{mode}: {mean:.3f} of the vendor's compiler (geometric mean of {len(values)}), worst {max(values):.2f}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
