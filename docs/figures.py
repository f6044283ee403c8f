"""Measured figures for README and the page on them: tables and a picture, from committed results alone.

Cycles are those of benchmarks/figures.json, beside what the vendor's compiler takes by the same timing model
(benchmarks/traffic.py); for networks that nothing was tuned for, both are in benchmarks/untuned.json. Accuracy is what
tests/models asserts of us and has measured of the vendor's compiler.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any

import models

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import cores, untuned  # noqa: E402  # they lie beside this folder
from benchmarks.install import RESULTS as INSTALLED  # noqa: E402  # they lie beside this folder
from benchmarks.traffic import FIGURES, VENDOR  # noqa: E402  # they lie beside this folder
from tests.models.accuracy import FLOORS  # noqa: E402  # they lie beside this folder
from tests.models.rows import ROWS  # noqa: E402  # they lie beside this folder

CHIP = "bm1684x"
ACCURACY = {
    "resnet8": "ic01",
    "kws": "kws01",
    "vww": "vww01",
    "ad": "ad01",
    "mnist": "mnist",
    "lenet": "lenet",
    "squeezenet": "squeezenet",
    "mobilenet_v1_0.25_128": "mobilenet_v1",
    "mobilenet_v2_dequant": "mobilenet_v2",
    "blazeface": "blazeface",
    "ultraface_slim_320": "ultraface",
    "yunet_n_320": "yunet",
    "yolox_nano_416": "yolox",
}
"""The accuracy row of a network, by its name in the table of cycles."""
SHORT = {
    "mobilenet_v2_dequant": ("MobileNetV2, 1000 classes", "top-1 {} of 60"),
    "kws": ("DS-CNN, spoken words", "top-1 {} of 200"),
    "vww": ("MobileNetV1 0.25, persons", "top-1 {} of 200"),
    "ad": ("autoencoder, machine sounds", "AUC {}"),
    "yunet_n_320": ("YuNet, faces", "found {} of 40"),
    "yolox_nano_416": ("YOLOX-nano, objects", "mAP50 {}"),
}
"""One network for each task, for README, and what its score counts."""
COMPILED = {
    "digits": "the example with calibration",
    "mobilenet_v2_dequant": "MobileNetV2 in f16",
    "yolox_nano_416": "YOLOX-nano in f16",
    "resnet50": "ResNet50 in f16",
}
"""What networks are called whose compile time is measured."""


def cycles() -> Mapping[str, Any]:
    """Ours, by network and by chip and mode."""
    return json.loads(FIGURES.read_text(encoding="utf-8"))


def pairs(cell: str) -> dict[str, tuple[int, int]]:
    """Our cycles and those of the vendor's compiler, of the networks that both have in a chip and mode."""
    ours = cycles()
    found = {name: (ours[name][cell]["cycles"], theirs[cell]) for name, theirs in VENDOR.items() if name in ours}
    return {name: (mine, theirs) for name, (mine, theirs) in found.items() if theirs is not None}


def mean_ratio(cell: str) -> float:
    """Geometric mean of our cycles over the vendor's."""
    ratios = [mine / theirs for mine, theirs in pairs(cell).values()]
    return exp(sum(map(log, ratios)) / len(ratios))


def short_table() -> Iterator[str]:
    """For README: one network for each task, int8 on one chip."""
    yield from (
        "| int8 on BM1684X | cycles | vendor's compiler | | accuracy | vendor's compiler | SQNR | vendor's compiler |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    )
    both = pairs(f"{CHIP} int8")
    for name, (title, counts) in SHORT.items():
        mine, theirs = both[name]
        row = ACCURACY[name]
        floor, other = FLOORS[row], ROWS[row].vendor[CHIP]
        yield (
            f"| {title} | {mine:,} | {theirs:,} | {mine / theirs - 1:+.0%} | {counts.format(f'{floor.score:g}')} | "
            f"{other.score:g} | {floor.output_db:g} dB | {other.output_db:g} dB |"
        )
    worst = max(mine / theirs for mine, theirs in both.values())
    mean = mean_ratio(f"{CHIP} int8")
    yield ""
    told = f"{mean:.2f} of the vendor's cycles ({worst:.2f} at worst)"
    yield f"Geometric mean over the {len(both)} networks measured with both: {told}."
    others = untuned.ratios("int8")
    told = f"{untuned.mean([*others.values()]):.2f} ({max(others.values()):.2f} at worst)"
    yield f"Over {len(others)} small networks of types that the planner was not tuned for: {told}."
    yield ""
    yield from installed()


def installed() -> Iterator[str]:
    """What installing costs and how long compiling takes, a line each."""
    found = json.loads(INSTALLED.read_text(encoding="utf-8"))
    own, everything = (found[name] / 1e6 for name in ("tpuc_bytes", "all_bytes"))
    times = {name.partition(" ")[0]: seconds for name, seconds in found["compile_seconds"].items()}
    told = ", ".join(f"{COMPILED[name]} {seconds:g} s" for name, seconds in times.items())
    yield f"Installed size: {own:.1f} MB, {everything:.0f} MB with dependencies."
    yield f"Compile times on one core: {told}."


def page() -> Iterator[str]:
    """All of it: accuracy, then cycles for each chip and mode."""
    yield from ("## Accuracy in int8 on BM1684X", "")
    yield from (
        "| network | SQNR at least | vendor's compiler | score at least | vendor's compiler |",
        "|---|--:|--:|--:|--:|",
    )
    for row, floor in FLOORS.items():
        theirs = ROWS[row].vendor[CHIP]
        yield f"| {row} | {floor.output_db:g} dB | {theirs.output_db:g} dB | {floor.score:g} | {theirs.score:g} |"
    for cell in sorted({cell for known in VENDOR.values() for cell, value in known.items() if value is not None}):
        yield from ("", f"## Cycles of {cell}", "")
        yield from ("| network | cycles | vendor's compiler | ratio |", "|---|--:|--:|--:|")
        for name, (mine, theirs) in pairs(cell).items():
            yield f"| {name} | {mine:,} | {theirs:,} | {mine / theirs:.2f} |"
        yield from ("", f"Geometric mean of the ratios: {mean_ratio(cell):.2f}.")
    yield from ("", "## Known and untuned networks on BM1684X", "")
    yield from known_and_untuned()
    yield from ("", *untuned.table())
    yield from ("", "## One and two cores of BM1688", "")
    yield "The bound: all products at the full rate of both cores, or constants, inputs and outputs once over DDR."
    yield from ("", *cores.table())


def known_and_untuned() -> Iterator[str]:
    """Means and worst rows of the networks above beside those of types that the planner was not tuned for."""
    yield "| networks | mode | number | over the vendor's cycles | worst | four samples over four times one | worst |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for mode in untuned.MODES:
        known = [mine / theirs for mine, theirs in pairs(f"{CHIP} {mode}").values()]
        yield f"| known | {mode} | {len(known)} | {untuned.mean(known):.2f} | {max(known):.2f} | | |"
        ratios, fours = untuned.ratios(mode), untuned.fours(mode)
        own, four = (f"{untuned.mean([*of.values()]):.2f} | {max(of.values()):.2f}" for of in (ratios, fours))
        yield f"| untuned | {mode} | {len(ratios)} | {own} | {four} |"


def picture() -> str:
    """The engines over time while they compute the example, as SVG. Same sources, same bytes."""
    import tpuc

    example = ROOT / "examples" / "digits"
    network = tpuc.load(example / "digits.onnx")
    return network.quantize(example / "digits_calib.npz").compile(CHIP).profile().to_svg()


SECTIONS: Mapping[str, Callable[[], Iterator[str]]] = {"short": short_table, "all": page, "models": models.page}
"""What markers name."""


def lines(of: Sequence[str] | Iterator[str]) -> str:
    """As a part of a page."""
    return "\n".join(of) + "\n"
