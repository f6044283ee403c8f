"""The front of accuracy and latency that `tpuc qtable --latency` finds, beside that of all assignments.

`python benchmarks/fronts.py --model-data DIR [--chips NAME,...] [--cache DIR] [NETWORK ...]`: every assignment of
layers to int8 and float of small networks is run in the fake-quantized network and timed by the chip's timing model.
For each assignment that no other beats a gap is taken: how much longer the fastest network of the search takes that is
as accurate, SQNR within `SAME_DB` being the same. A line has the widest gap of the networks that are found by noise
alone, the widest and the mean one of the search, how many networks it compiled, and how many there are. `--cache` keeps
what was measured of all assignments.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import CALIBRATION_TABLE, QUANTIZE_SEARCH, Module, Op
from tpuc_accuracy.mixed_precision.evaluations import Evaluations
from tpuc_accuracy.mixed_precision.search_quantize_table import SearchQuantizeTable, sensitivity_job
from tpuc_accuracy.mixed_precision.timed_search import Timer
from tpuc_driver.data import inputs_of, open_samples
from tpuc_driver.session import Session
from tpuc_driver.work import one_blas_thread, open_pool
from tpuc_lower.target.results import LATENCY
from tpuc_ops import top

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models.rows import ROWS
from tests.passes.graphs import Network

CHIPS = ("bm1684x", "cv183x")
SAME_DB = 0.1
"""Ten other samples move the SQNR by more."""
SAMPLES = 10
PARTS = {
    "mnist": ("mnist", 0),
    "lenet": ("lenet", 0),
    "resnet8, 5 ops": ("ic01", 5),
    "resnet8, 9 ops": ("ic01", 9),
    "vww, 9 ops": ("vww01", 9),
    "kws": ("kws01", 0),
    "ad01": ("ad01", 0),
}
"""Rows of the accuracy table, and how many ops of them are taken; 0 is all."""
DRAWN = 6
"""Networks drawn at random."""


@dataclass(frozen=True)
class Case:
    """A network with samples for calibration."""

    name: str
    module: Module
    samples: Any


@dataclass(frozen=True)
class Assignments:
    """All of them: ops in float, noise in dB below the signal, milliseconds."""

    choices: Sequence[tuple[str, ...]]
    decibels: Sequence[float]
    milliseconds: Sequence[float]


def part(name: str, data: Path) -> Case:
    row, count = PARTS[name]
    path, weights = data / ROWS[row].model, None
    if path.is_dir():
        (weights,), (path,) = path.glob("*.caffemodel"), path.glob("*.prototxt")
    module = Session().transform(path, model_data=weights)
    if count:
        computing = [one for one in module.main.operations if one.operands and not isinstance(one.op, top.Input)]
        module = Session().transform(path, model_data=weights, output_names=[computing[count - 1].name])
    return Case(name, module, np.stack(ROWS[row].calibration(data / "data")))


def drawn(seed: int) -> Case:
    """Six to eight layers with branches, depthwise filters and channels of unlike size."""
    random = np.random.default_rng(seed)
    channels = int(random.choice([8, 16]))
    net = Network(1, channels, 12, 12)
    values = [net.input]
    for _ in range(int(random.integers(6, 9))):
        x = values[-1]
        kind = random.choice(["conv", "conv", "depthwise", "point", "add", "pool"])
        if kind == "add" and len(values) > 2 and values[-3].tensor.dims == x.tensor.dims:
            values.append(net.op(top.Add(do_relu=bool(random.integers(2))), x, values[-3]))
        elif kind == "pool" and min(x.tensor.dims[2:]) >= 6 and not is_pool(x):
            values.append(net.op(top.MaxPool(kernel_shape=(2, 2), strides=(2, 2)), x))
        else:
            values.append(net.op(*convolution(net, x, kind, random)))
    module = net.finish(values[-1])
    samples = random.standard_normal((32, *net.input.tensor.dims)) * np.exp2(random.normal(size=(channels, 1, 1)))
    return Case(f"drawn {seed}", module, samples.astype(np.float32))


def is_pool(value: Any) -> bool:
    return isinstance(value.defining.op, top.MaxPool)


def convolution(net: Network, x: Any, kind: str, random: Any) -> tuple[Op, Any, Any, Any]:
    """An op with its operands; each output channel has filters of another size."""
    channels = x.tensor.dims[1]
    side, group = (1 if kind == "point" else 3), (channels if kind == "depthwise" else 1)
    shape = (channels, channels // group, side, side)
    sizes = np.exp2(random.normal(size=(channels, 1, 1, 1))) / np.sqrt(np.prod(shape[1:]))
    filters = net.build.weight(f"f{len(net.body.operations)}", (random.normal(size=shape) * sizes).astype(np.float32))
    op = top.Conv(kernel_shape=(side, side), pads=(side // 2,) * 4, group=group, do_relu=bool(random.integers(2)))
    return op, x, filters, net.none


def assignments(evaluations: Evaluations, time: Timer) -> Assignments:
    """Noise and time of every one; ops that only move data follow those around them."""
    names = evaluations.graph.layers
    every = [some for count in range(len(names) + 1) for some in combinations(names, count)]
    choices = [evaluations.graph.completed(some) for some in every]
    decibels = [one.sqnr_db for one in evaluations.mixed(choices)]
    return Assignments(choices, decibels, [ms if (ms := time(one)) is not None else np.inf for one in choices])


def gaps(wanted: Assignments, found: Sequence[tuple[float, float]]) -> list[float]:
    """Of each network on the front of all, how much longer the search's takes."""
    result: list[float] = []
    best = -np.inf
    for place in np.lexsort((-np.array(wanted.decibels), wanted.milliseconds)):
        decibels, milliseconds = wanted.decibels[place], wanted.milliseconds[place]
        if decibels > best and np.isfinite(milliseconds):
            best = decibels
            ours = [taken for accuracy, taken in found if accuracy >= decibels - SAME_DB]
            result.append(max(min(ours, default=np.inf) / milliseconds - 1, 0.0))
    return result


def kept(case: Case, chip: str, cache: Path | None, make: Callable[[], Assignments]) -> Assignments:
    """What is in the cache, or made and put there."""
    file = None if cache is None else cache / f"{case.name.replace(' ', '_')}_{chip}.json"
    if file is not None and file.exists():
        return Assignments(**json.loads(file.read_text()))
    result = make()
    if file is not None:
        file.write_text(json.dumps(result.__dict__))
    return result


def measure(case: Case, chip: str, cache: Path | None) -> str:
    """One line."""
    session = Session(chip=chip, quantize="int8")
    (spec,) = inputs_of(case.module)
    compiled: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder, one_blas_thread():
        samples = Path(folder) / "samples.npz"
        np.savez(samples, **{spec.name: case.samples})
        table = session.calibrate(case.module, dataset=samples)
        timer = Timer(session, case.module, table)

        def time(floats: Sequence[str]) -> float | None:
            compiled.append(tuple(floats))
            return timer(floats)

        context = session.context({CALIBRATION_TABLE: table, LATENCY: time})
        search = SearchQuantizeTable(dataset=str(samples), input_num=SAMPLES, max_float_layers=1000, workers=1)
        search.run(case.module, context)
        found = context.result(QUANTIZE_SEARCH)
        rows = open_samples([spec], samples)
        few = replace(rows, samples=rows.samples[-SAMPLES:])
        with open_pool(1) as pool:
            evaluations = Evaluations(sensitivity_job(case.module, context, few), context, pool, 1000)
            every = kept(case, chip, cache, lambda: assignments(evaluations, timer))
            by_noise = [evaluations.graph.completed(choice) for choice in ((), *evaluations.quiet())]
    known = dict(zip(map(frozenset, every.choices), zip(every.decibels, every.milliseconds, strict=True), strict=True))
    longer = gaps(every, [(-point.loss, point.milliseconds) for point in found.points])
    before = gaps(every, [known[frozenset(choice)] for choice in by_noise])
    layers = len(every.choices).bit_length() - 1
    return (
        f"{case.name:16}{chip:10}{layers:7}{max(before):10.1%}{max(longer):11.1%}{np.mean(longer):10.1%}"
        f"{len(longer):7}{len(found.points):7}{len(set(compiled)):10}{len(every.choices):8}"
    )


def main() -> None:
    names = [*PARTS, *(f"drawn {seed}" for seed in range(DRAWN))]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NETWORK", help=f"of {'; '.join(names)}; all when left out")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--chips", default=",".join(CHIPS))
    parser.add_argument("--cache", type=Path)
    arguments = parser.parse_args()
    print(f"{'network':16}{'chip':10} layers  by noise  worst gap  mean gap  front  found  compiled     all")
    for name in arguments.names or names:
        case = part(name, arguments.model_data) if name in PARTS else drawn(int(name.split()[1]))
        for chip in arguments.chips.split(","):
            print(measure(case, chip, arguments.cache), flush=True)


if __name__ == "__main__":
    main()
