"""What int8 networks decide beside their float ones, row by row, worst first.

`python benchmarks/decisions.py --model-data DIR [--chips A,B] [--variants plain,...] [ROW ...]`: calibration with
default options on the calibration data, beside the untuned table (`--tune-num 0 --bias-num 0`) and what the vendor's
compiler reaches; the TPU module is evaluated, which simulators equal to the bit. Decisions are faces found, top-1
classes, detections matched by overlap, and the order of anomaly scores of pairs. Variants are changes of the network
that do not alter its meaning (tests/passes/calibration/stress.py); `all` stands for every one of them. They are brought
into their simplest form as all that is imported.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import Module, Unsupported
from tpuc.interpreter import Interpreter
from tpuc_driver.session import Session
from tpuc_driver.work import one_blas_thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models.decisions import NAMES, Deciding, deciding
from tests.models.rows import calibrate, load, lower, run
from tests.passes.calibration.stress import VARIANTS, Stressed

Array = NDArray[Any]
UNTUNED = {"tune_num": 0, "bias_num": 0}


@dataclass(frozen=True)
class Line:
    """One row of the table. `same` and `untuned` are decisions of `total`; `db` of the worst output."""

    name: str
    chip: str
    same: int
    untuned: int
    total: int
    vendor: int
    db: float
    untuned_db: float
    seconds: float
    untuned_seconds: float

    @property
    def loss(self) -> float:
        """The share of decisions that are lost."""
        return 1 - self.same / self.total

    def text(self) -> str:
        """As the heads say."""
        vendor = str(self.vendor) if self.vendor else "-"
        return (
            f"{self.name:34}{self.chip:>9}{self.same:7}{self.untuned:9}{vendor:>8}{self.total:6}{self.loss:8.1%}"
            f"{self.db:8.1f}{self.untuned_db:9.1f}{self.seconds:9.1f}{self.untuned_seconds:9.1f}"
        )


HEADS = (
    f"{'row':34}{'chip':>9}{'agree':>7}{'untuned':>9}{'vendor':>8}{'of':>6}{'lost':>8}"
    f"{'dB':>8}{'untuned':>9}{'cpu s':>9}{'untuned':>9}"
)


def outputs_of(module: Module, stressed: Stressed, samples: Sequence[Array]) -> list[list[Array]]:
    """By sample the outputs in order, as the network gave them before the stress."""
    names = Interpreter(module).output_names
    return [stressed.restore([one[name] for name in names]) for one in run(module, [], samples)]


def worst_decibels(wanted: Sequence[Sequence[Array]], got: Sequence[Sequence[Array]]) -> float:
    """Of the worst output, pooled over the samples."""
    worst = math.inf
    for place in range(len(wanted[0])):
        signal = sum(float((one[place].astype(np.float64) ** 2).sum()) for one in wanted)
        pairs = zip(wanted, got, strict=True)
        noise = sum(float(((b[place].reshape(a[place].shape) - a[place]) ** 2).sum()) for a, b in pairs)
        worst = min(worst, 10 * math.log10(signal / noise) if noise and signal else math.inf)
    return worst


def table_of(row: Deciding, single: Module, model_data: Path, options: Mapping[str, Any]) -> tuple[Any, float]:
    """A calibration table, and the processor seconds that it took."""
    with tempfile.TemporaryDirectory() as folder:
        start = process_time()
        table = calibrate(row.row, single, model_data, Path(folder), options=options)
        return table, process_time() - start


def measure(
    name: str,
    variants: Sequence[str],
    chips: Sequence[str],
    model_data: Path,
    options: Mapping[str, Any],
    passes: Sequence[str] = (),
) -> list[Line]:
    """The lines of one network, on which `passes` are run before calibration."""
    data = model_data / "data"
    one = deciding(name, data)
    samples = one.row.samples(data)
    module, single = (load(one.row, model_data, batch) for batch in (one.row.batch, 1))
    exact = outputs_of(module, Stressed(module), samples)
    calibration = one.row.calibration(data)
    lines: list[Line] = []
    for variant in variants:
        both = [VARIANTS[variant](form.clone(), calibration) for form in (module, single)]
        if any(form is None for form in both):
            print(f"{name} {variant}: nothing to change", file=sys.stderr)
            continue
        stressed, small = (form for form in both if form is not None)
        for form in (stressed, small):
            session = Session()
            session.manager(session.context()).run(form.module, ["canonicalize", *passes], "prepare")
        wanted = outputs_of(stressed.module, stressed, samples)
        same, total = one.agreement(exact, wanted)
        if same < total:
            print(f"{name} {variant}: in float {same} of {total} decisions are kept", file=sys.stderr)
        tables = [table_of(one, small.module, model_data, given) for given in (options, UNTUNED)]
        for chip in chips:
            results: list[tuple[int, float]] = []
            for table, _ in tables:
                try:
                    got = outputs_of(lower(stressed.module, chip, table), stressed, samples)
                except Unsupported as error:
                    print(f"{name} {variant} {chip}: {error.sentence()}", file=sys.stderr)
                    results.append((0, math.nan))
                else:
                    results.append((one.agreement(exact, got)[0], worst_decibels(wanted, got)))
            vendor = one.row.vendor[chip].agree if variant == "plain" and chip in one.row.vendor else 0
            (found, db), (untuned, untuned_db) = results
            title = name if variant == "plain" else f"{name} {variant}"
            line = Line(title, chip, found, untuned, total, vendor, db, untuned_db, *(seconds for _, seconds in tables))
            print(line.text(), file=sys.stderr, flush=True)
            lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(NAMES)}; all of them when left out")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--chips", default="bm1684x,cv183x")
    parser.add_argument("--variants", default="plain", help=f"of {', '.join(VARIANTS)}, or all")
    parser.add_argument("--options", type=json.loads, default={}, help="further options of calibrate, as JSON")
    parser.add_argument("--pass", dest="passes", action="append", default=[], help="run on TOP before calibration")
    arguments = parser.parse_args()
    variants = list(VARIANTS) if arguments.variants == "all" else arguments.variants.split(",")
    lines: list[Line] = []
    with one_blas_thread():
        for name in arguments.rows or NAMES:
            chips = arguments.chips.split(",")
            lines += measure(name, variants, chips, arguments.model_data, arguments.options, arguments.passes)
    print(HEADS)
    for line in sorted(lines, key=lambda one: (-one.loss, one.name, one.chip)):
        print(line.text())


if __name__ == "__main__":
    main()
