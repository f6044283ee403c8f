"""Cosine similarity of every mode's outputs with the float network's, network by network.

`python benchmarks/modes.py --model-data DIR [--chip NAME] [--samples COUNT] [ROW ...]`: calibration with default
options; the least cosine of an output over all samples. f16 should stay above 0.999, bf16 above 0.99, int8 above 0.9.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import CALIBRATION_TABLE, Module
from tpuc.interpreter import Interpreter
from tpuc.schedule import PassManager
from tpuc_driver.session import Session
from tpuc_driver.similarity import similarity
from tpuc_driver.work import one_blas_thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models.rows import ROWS, calibrate, load, run

LEAST = {"f16": 0.999, "bf16": 0.99, "int8": 0.9, "int8-asym": 0.9}


def lower(module: Module, chip: str, mode: str, table: Any) -> Module:
    """The module in a mode, before memory is planned."""
    session = Session(chip=chip, quantize=mode)
    lowered = module.clone()
    manager = PassManager(session.context({CALIBRATION_TABLE: table} if mode.startswith("int8") else {}))
    for stage in ("calibrate", "lower") if mode.startswith("int8") else ("lower",):
        manager.run_pipeline(stage, lowered)
    return lowered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(ROWS)}; all of them when left out")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--chip", default="bm1684x")
    parser.add_argument("--samples", type=int, default=16)
    arguments = parser.parse_args()
    modes = [mode for mode in LEAST if mode in Session(chip=arguments.chip).chip.description.modes]
    print("network".ljust(16) + "".join(mode.rjust(12) for mode in modes))
    low: list[str] = []
    for name in arguments.rows or ROWS:
        row = ROWS[name]
        with tempfile.TemporaryDirectory() as folder, one_blas_thread():
            module = load(row, arguments.model_data)
            table = calibrate(row, module, arguments.model_data, Path(folder))
            samples = row.samples(arguments.model_data / "data")[: arguments.samples]
            wanted = run(module, [], samples)
            outputs = Interpreter(module).output_names
            text = name.ljust(16)
            for mode in modes:
                lowered = lower(module, arguments.chip, mode, table)
                got = run(lowered, [], samples)
                pairs = list(zip(outputs, Interpreter(lowered).output_names, strict=True))
                least = min(
                    similarity(np.stack([one[b] for one in got]), np.stack([one[a] for one in wanted])).cosine
                    for a, b in pairs
                )
                text += f"{least:12.6f}"
                if least <= LEAST[mode]:
                    low.append(f"{name} {mode}")
        print(text, flush=True)
    if low:
        raise SystemExit(f"below the least cosine: {', '.join(low)}")


if __name__ == "__main__":
    main()
