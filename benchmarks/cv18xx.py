"""Sizes and times of networks on CV182x, CV181x and CV180x beside the vendor's compiler, as ratios.

python benchmarks/cv18xx.py --model-data DIR [--chip CHIP] [--markdown] [NAME ...]

Everything here is deterministic. int8 ranges come from one random sample, and int8 files take integers, since the
vendor's convert floats on the host. µs by the rules of the vendor's estimator, with its memory (A) and with that of a
board (B). The last line of a chip is the geometric mean of each ratio; look at the worst rows, too.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import LoadedModel
from tpuc_cv18xx.chip import CV180X, CV181X, CV182X
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.session.boundary import Boundary

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.traffic import network_file, source_options

TARGETS = {target.name: target for target in (CV182X, CV181X, CV180X)}
MODES = ("int8", "bf16")
HEADS = ("weights", "commands", "activations", "all", "A", "B")


@dataclass(frozen=True)
class Vendor:
    """What the vendor's compiler 1.30.2 makes of a network in one mode: bytes of weights, and by chip those of commands
    and of shared and private memory, and µs (A, B).
    """

    weights: int
    commands: tuple[int, int, int]
    activations: tuple[int, int, int]
    times: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]


def _same(value: int) -> tuple[int, int, int]:
    return (value, value, value)


VENDOR = {
    ("resnet8", "int8"): Vendor(82624, (7752, 7752, 8304), (3152, 3152, 52224), ((77.9, 84.8), (119, 125), (452, 482))),
    ("resnet8", "bf16"): Vendor(
        158160, (7416, 7416, 25056), (6272, 6272, 114688), ((287, 299), (426, 437), (1718, 1810))
    ),
    ("kws", "int8"): Vendor(29296, (7104, 7104, 6288), _same(8560), ((37, 42), (53.1, 58), (186, 192))),
    ("kws", "bf16"): Vendor(48432, (7368, 7368, 6552), _same(16992), ((93.4, 102), (136, 144), (509, 521))),
    ("vww", "int8"): Vendor(
        234896, (11184, 11184, 33024), (27920, 27920, 50688), ((90.1, 114), (125, 146), (478, 502))
    ),
    ("vww", "bf16"): Vendor(
        429232, (11448, 11448, 61464), (55808, 55808, 110592), ((291, 375), (396, 479), (1385, 1477))
    ),
    ("ad", "int8"): Vendor(270880, (4584, 4584, 6624), _same(1408), ((41.2, 78.8), (43.5, 80.9), (49.9, 118))),
    ("ad", "bf16"): Vendor(535072, (4848, 4848, 9744), _same(1536), ((79.9, 154), (83.3, 158), (92.9, 229))),
    ("blazeface", "int8"): Vendor(119712, (24984, 24984, 72960), _same(376832), ((542, 745), (735, 905), (2240, 2573))),
    ("blazeface", "bf16"): Vendor(
        205968, (33240, 33240, 130944), _same(655360), ((1431, 1921), (1968, 2370), (6225, 6798))
    ),
    ("mobilenet_v2_dequant", "int8"): Vendor(
        4145920,
        (94008, 93720, 1647240),
        (1128960, 1128960, 1756160),
        ((3394, 4452), (4699, 5560), (17405, 18837)),
    ),
    ("mobilenet_v2_dequant", "bf16"): Vendor(
        8041072,
        (351000, 351000, 3908592),
        _same(4816896),
        ((14052, 20768), (18095, 24417), (59683, 66742)),
    ),
}
"""Baselines of the vendor's compiler: batch 1, default tuning, KL calibration on 12 samples."""
NAMES = tuple(dict.fromkeys(name for name, _ in VENDOR))


def microseconds(loaded: LoadedModel, chip: str) -> tuple[float, float]:
    """By both models."""
    target = TARGETS[chip]
    slower = target.profile.ddr_bytes_per_second / target.profiles["vendor"].ddr_bytes_per_second
    scale = 1e6 / target.clock_hz
    return loaded.timeline("vendor").cycles * scale, loaded.timeline_if("vendor", slower).cycles * scale


def built(name: str, chip: str, mode: str, data: Path) -> LoadedModel:
    """The file of a network, opened."""
    session = Session(chip=chip, quantize=mode)
    with tempfile.TemporaryDirectory() as text:
        path, samples = network_file(name, data, Path(text)), Path(text) / "samples.npz"
        module = session.transform(path, **source_options(name, path))
        table: Any = None
        if mode == "int8":
            random = np.random.default_rng(0)
            arrays: dict[str, Any] = {
                spec.name: random.uniform(0, 1, spec.shape).astype(np.float32) for spec in inputs_of(module)
            }
            np.savez(samples, **arrays)
            table = session.calibrate(module, dataset=samples, method="max", options={"tune_num": 0, "bias_num": 0})
        boundary = Boundary(quant_input=True) if mode == "int8" else None
        return session.chip.load(session.build(module, table, boundary=boundary).data)


def pairs(name: str, chip: str, mode: str, data: Path) -> list[tuple[float, float]]:
    """Ours and the vendor's figure for each head."""
    loaded, vendor, index = built(name, chip, mode, data), VENDOR[name, mode], list(TARGETS).index(chip)
    ends = sum(info.size_bytes for info in (*loaded.inputs, *loaded.outputs))
    ours = [loaded.memory[key] for key in ("weights", "code", "activations")]
    theirs = [vendor.weights, vendor.commands[index], vendor.activations[index]]
    found = [*zip(ours, theirs, strict=True), (sum(ours) + ends, sum(theirs) + ends)]
    return [*found, *zip(microseconds(loaded, chip), vendor.times[index], strict=True)]


def line(cells: Sequence[str], is_markdown: bool) -> str:
    """One line of the table."""
    return f"| {' | '.join(cells)} |" if is_markdown else "".join(cell.rjust(28) for cell in cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--chip", choices=TARGETS, action="append")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("names", nargs="*", default=NAMES)
    arguments = parser.parse_args()
    print(line(("network", *HEADS), arguments.markdown))
    for chip in arguments.chip or TARGETS:
        logarithms: list[list[float]] = []
        for name in arguments.names:
            for mode in MODES:
                found = pairs(name, chip, mode, arguments.model_data)
                logarithms.append([math.log(max(ours, 1) / theirs) for ours, theirs in found])  # of no bytes: as of one
                cells = [f"{_figure(ours)} / {_figure(theirs)} {ours / theirs:.3f}" for ours, theirs in found]
                print(line((f"{name} {mode} {chip}", *cells), arguments.markdown), flush=True)
        means = (f"{math.exp(sum(column) / len(column)):.3f}" for column in zip(*logarithms, strict=True))
        print(line((f"mean {chip}", *means), arguments.markdown), flush=True)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 or float(value).is_integer() else f"{value:.1f}"


if __name__ == "__main__":
    main()
