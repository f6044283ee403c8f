"""int8 accuracy against the float network, row by row, beside what the vendor's compiler reaches.

`python benchmarks/accuracy.py --model-data DIR [--chip NAME] [ROW ...]`: calibration with default options on the
calibration data, measured on the evaluation data; SQNR in dB before the final Softmax and of the worst output.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from tpuc_driver.work import one_blas_thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models.rows import ROWS, calibrate, load, logits_of, lower, measure, run

WIDTHS = (8, 8, 8, 7, 6, 8, 7, 8, 7, 7)


def exact_values(name: str, module: Any, data: Path, cache: Path | None) -> list[dict[str, Any]]:
    """The float network's results, kept in `cache` for the next time."""
    file = None if cache is None else cache / f"{name}_float.npz"
    if file is not None and file.exists():
        with np.load(file) as arrays:
            columns = dict(arrays)
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    logits = logits_of(module)
    values = run(module, [logits] if logits else [], ROWS[name].samples(data))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **{key: np.stack([one[key] for one in values]).astype(np.float32) for key in values[0]})
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all of them when left out")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--chip", default="bm1684x")
    parser.add_argument("--method", default="kld")
    parser.add_argument("--options", type=json.loads, default={}, help="further options of calibrate, as JSON")
    parser.add_argument("--cache", type=Path, help="folder that keeps the float results")
    arguments = parser.parse_args()
    heads = zip(
        ("float", "ours", "peer", "agree", "peer", "logits", "peer", "output", "peer", "s"), WIDTHS, strict=True
    )
    print("row".ljust(14) + "".join(head.rjust(width) for head, width in heads))
    gains: list[float] = []
    for name in arguments.rows or ROWS:
        row, peer = ROWS[name], ROWS[name].vendor[arguments.chip]
        with tempfile.TemporaryDirectory() as folder, one_blas_thread():
            module = load(row, arguments.model_data, row.batch)
            exact = exact_values(name, module, arguments.model_data / "data", arguments.cache)
            start = perf_counter()
            single = load(row, arguments.model_data)
            table = calibrate(row, single, arguments.model_data, Path(folder), arguments.method, arguments.options)
            seconds = perf_counter() - start
            got = measure(row, module, exact, lower(module, arguments.chip, table), arguments.model_data / "data")
        worst = min(got.output_db.values())
        pairs = [(worst, peer.output_db), (got.logits_db, peer.logits_db)]
        gains += [ours - theirs for ours, theirs in pairs if not math.isnan(ours - theirs)]
        digits = ".4g"
        print(
            f"{name:14}{got.score_float:8{digits}}{got.score:8{digits}}{peer.score:8{digits}}{got.agree:7}{peer.agree:6}"
            f"{got.logits_db:8.1f}{peer.logits_db:7.1f}{worst:8.2f}{peer.output_db:7.1f}{seconds:7.1f}",
            flush=True,
        )
        if len(got.output_db) > 1:
            print("    " + " ".join(f"{db:.1f}" for db in got.output_db.values()))
    print(f"mean gain over the vendor's compiler: {np.mean(gains):+.2f} dB over {len(gains)} values")


if __name__ == "__main__":
    main()
