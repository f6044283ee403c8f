"""What a network that comes quantized with zero points loses on a chip that has none, and what its float network keeps.

`python benchmarks/zero_points.py --model-data DIR [--samples N] [--chip NAME] [ROW ...]`

Every network is quantized by ONNX Runtime (U8S8, minimum and maximum of eight samples) and compiled as it comes; its
float network is calibrated with the samples of its row. Columns are signal-to-quantization-noise ratios of the worst
output against the float network: of ONNX Runtime, of the compiled file, and of the calibrated float network; that of
the compiled file against ONNX Runtime; and how far the furthest value lies from it in steps of its output.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tpuc_driver.session import Session

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.quantized import CALIBRATED, FORMS, evaluated, quantized, runtime, source
from tests.models.rows import ROWS, calibrate, lower

NETWORKS = ("ic01", "kws01", "vww01", "mobilenet_v1", "blazeface", "ultraface", "yunet")
FORM = "u8s8-13"


def sqnr(got: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> float:
    """In dB, of the worst output."""
    return min(_ratio(*_together(name, got, wanted)) for name in wanted[0])


def _ratio(ours: Any, theirs: Any) -> float:
    noise = float(((ours - theirs) ** 2).sum())
    return 10 * np.log10(float((theirs**2).sum()) / noise) if noise else np.inf


def _together(name: str, got: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> tuple[Any, Any]:
    return tuple(np.stack([row[name].reshape(-1) for row in rows]).astype(np.float64) for rows in (got, wanted))


def most_steps(got: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]) -> float:
    """Of the smallest difference that the runtime's values of an output have."""
    found: list[float] = []
    for name in wanted[0]:
        ours, theirs = _together(name, got, wanted)
        levels = np.unique(np.round(theirs, 7))
        found.append(float(np.abs(ours - theirs).max() / (np.diff(levels).min() if levels.size > 1 else 1.0)))
    return max(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; {', '.join(NETWORKS)} if none")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--samples", type=int, default=40)
    parser.add_argument("--chip", default="cv181x")
    arguments = parser.parse_args()
    chip = arguments.chip
    print(f"{'network':14}{'runtime':>9}{chip:>9}{'float':>9}{'beside':>9}{'steps':>7}")
    for name in arguments.rows or NETWORKS:
        row, data, form = ROWS[name], arguments.model_data / "data", FORMS[FORM]
        samples, shown = row.samples(data)[: arguments.samples], row.calibration(data)[:CALIBRATED]
        assert form is not None
        with tempfile.TemporaryDirectory() as folder:
            prepared = source(row, arguments.model_data, form.opset, Path(folder))
            path = Path(folder) / "quantized.onnx"
            quantized(prepared, form, shown, path)
            real, theirs = runtime(prepared, samples), runtime(path, samples)
            names = list(real[0])
            ours = evaluated(lower(Session().transform(path), chip, None, None), samples, names)
            module = Session().transform(prepared)
            table = calibrate(row, module, arguments.model_data, Path(folder))
            calibrated = evaluated(lower(module, chip, table, "int8"), samples, names)
        figures = [sqnr(rows, real) for rows in (theirs, ours, calibrated)] + [sqnr(ours, theirs)]
        print(f"{name:14}" + "".join(f"{one:9.1f}" for one in figures) + f"{most_steps(ours, theirs):7.1f}", flush=True)


if __name__ == "__main__":
    main()
