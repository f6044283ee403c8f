"""int8 accuracy against the float network, row by row, beside what the vendor's compiler reaches.

`python benchmarks/accuracy.py --model-data DIR [--chip NAME] [ROW ...]`: calibration with default options on the
calibration data, measured on the evaluation data; SQNR in dB before the final Softmax and of the worst output. With
`--draws N` each row is calibrated on N draws of four fifths of its calibration data, and means and deviations are
printed: which samples tune is chance, so a change is judged by means.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from dataclasses import replace
from functools import partial
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


def _given(samples: list[Any], _: Path) -> list[Any]:
    return samples


def print_draws(
    name: str, arguments: argparse.Namespace, module: Any, single: Any, exact: list[dict[str, Any]], folder: Path
) -> None:
    """Mean and deviation of score, agreement, and both ratios over draws of the calibration data."""
    row, data = ROWS[name], arguments.model_data / "data"
    samples, found = row.calibration(data), list[tuple[float, ...]]()
    for draw in range(arguments.draws):
        places: list[int] = np.random.default_rng(draw).permutation(len(samples)).tolist()
        chosen = [samples[place] for place in places[: len(places) * 4 // 5]]
        drawn = replace(row, calibration=partial(_given, chosen))
        table = calibrate(drawn, single.clone(), arguments.model_data, folder, arguments.method, arguments.options)
        got = measure(row, module, exact, lower(module, arguments.chip, table), data)
        found.append((got.score, got.agree, got.logits_db, min(got.output_db.values())))
    words = ("score", "agree", "logits", "output")
    columns = zip(words, np.mean(found, 0), np.std(found, 0), strict=True)
    print(f"{name:14}" + ", ".join(f"{word} {mean:.4g} (deviation {spread:.2g})" for word, mean, spread in columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all of them when left out")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--chip", default="bm1684x")
    parser.add_argument("--method", default="kld")
    parser.add_argument("--options", type=json.loads, default={}, help="further options of calibrate, as JSON")
    parser.add_argument("--draws", type=int, default=0, metavar="N", help="calibrate on N draws, and print means")
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
            single = load(row, arguments.model_data)
            if arguments.draws:
                print_draws(name, arguments, module, single, exact, Path(folder))
                continue
            start = perf_counter()
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
    if not arguments.draws:
        print(f"mean gain over the vendor's compiler: {np.mean(gains):+.2f} dB over {len(gains)} values")


if __name__ == "__main__":
    main()
