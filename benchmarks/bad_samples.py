"""Which faults in calibration samples are named, what one bad sample costs, and how often good samples are blamed.

`python benchmarks/bad_samples.py --model-data DIR [--loss] [NETWORK ...]`: twelve kinds of faults in the samples of six
networks, and twenty good sets of ten networks. `--loss` also calibrates with default options, on good samples and with
one bad sample among them, and prints the difference of the worst output in decibels on the evaluation data.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.errors import CalibrationError
from tpuc.ir import Module
from tpuc_driver.data import inputs_of
from tpuc_driver.session import Session
from tpuc_driver.work import one_blas_thread

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.models.rows import ROWS, load, logits_of, lower, measure, run

Samples = NDArray[np.float32]
Change = Callable[[Samples, np.random.Generator], Samples]

NETWORKS = ("ic01", "kws01", "vww01", "lenet", "blazeface", "ultraface")
GOOD = (*NETWORKS, "mnist", "ad01", "mobilenet_v1", "yunet")
COUNT, BAD = 40, 17
"""Samples of a set, and the place of the bad one."""


def one(change: Change) -> Change:
    """The change in one sample only."""

    def changed(samples: Samples, random: np.random.Generator) -> Samples:
        result = samples.copy()
        result[BAD] = change(samples[BAD : BAD + 1], random)[0]
        return result

    return changed


def noise(samples: Samples, random: np.random.Generator) -> Samples:
    return random.uniform(samples.min(), samples.max(), samples.shape).astype(np.float32)


def constants(samples: Samples, random: np.random.Generator) -> Samples:
    levels = random.uniform(samples.min(), samples.max(), (len(samples), *[1] * (samples.ndim - 1)))
    return np.broadcast_to(levels, samples.shape).astype(np.float32)


KINDS: Mapping[str, tuple[Change, str]] = {
    "all divided by 255": (lambda x, _: x / np.float32(255), "too small|scale"),
    "all times 255": (lambda x, _: x * np.float32(255), "too large|scale"),
    "all zeros": (lambda x, _: x * 0, "0 everywhere"),
    "all constant": (constants, "are constant"),
    "all noise": (noise, "like noise"),
    "one times 10": (one(lambda x, _: x * 10), f"{BAD:02}.npy"),
    "one times 255": (one(lambda x, _: x * 255), f"{BAD:02}.npy"),
    "one divided by 255": (one(lambda x, _: x / np.float32(255)), f"{BAD:02}.npy"),
    "one zeros": (one(lambda x, _: x * 0), f"{BAD:02}.npy"),
    "one constant": (one(constants), f"{BAD:02}.npy"),
    "one noise": (one(noise), f"{BAD:02}.npy"),
    "half repeated": (lambda x, _: np.concatenate([x[: COUNT // 2]] * 2), "same as an earlier sample"),
}
"""Faults, and what a remark about each contains: any of several texts."""


def samples_of(name: str, data: Path, part: int | None = None) -> Samples:
    """Calibration samples, or every second of them."""
    found = np.stack(ROWS[name].calibration(data))
    chosen = found if part is None else found[part::2]
    return chosen[:: max(1, len(chosen) // COUNT)][:COUNT].astype(np.float32)


def calibrated(module: Module, samples: Samples, **options: Any) -> tuple[Any, str]:
    """The table, None where samples are refused, and what is said."""
    said: list[str] = []
    shape = inputs_of(module)[0].shape
    with tempfile.TemporaryDirectory() as folder:
        for place, sample in enumerate(samples):
            np.save(Path(folder) / f"{place:02}.npy", sample.reshape(shape))
        session = Session(remark=said.append)
        try:
            table = session.calibrate(module, dataset=Path(folder), options={"lint": True, **options})
        except CalibrationError as error:
            return None, str(error)
    return table, " ".join(said)


def worst_db(name: str, module: Module, data: Path, table: Any) -> float:
    """The lowest signal to noise ratio of an output on the evaluation data."""
    logits = logits_of(module)
    exact = run(module, [logits] if logits else [], ROWS[name].samples(data / "data"))
    return min(measure(ROWS[name], module, exact, lower(module, "bm1684x", table), data / "data").output_db.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", metavar="NETWORK", help=f"of {', '.join(NETWORKS)}; all by default")
    parser.add_argument("--model-data", type=Path, required=True)
    parser.add_argument("--loss", action="store_true", help="measure what one bad sample costs; takes minutes")
    arguments = parser.parse_args()
    networks, data = arguments.networks or NETWORKS, arguments.model_data
    quick = {"tune_num": 0, "bias_num": 0}
    missed: dict[str, list[str]] = {kind: [] for kind in KINDS}
    costs: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with one_blas_thread():
        for name in networks:
            module, good = load(ROWS[name], data), samples_of(name, data / "data")
            usual = worst_db(name, module, data, calibrated(module, good)[0]) if arguments.loss else math.nan
            for kind, (change, words) in KINDS.items():
                bad = change(good, np.random.default_rng(45))
                table, said = calibrated(module, bad, **({} if arguments.loss and kind.startswith("one") else quick))
                if not any(word in said for word in words.split("|")):
                    missed[kind].append(name)
                if arguments.loss and kind.startswith("one"):
                    costs[kind].append(usual - worst_db(name, module, data, table))
            print(f"{name}: missed {[kind for kind, names in missed.items() if name in names]}", flush=True)
        alarms = {
            f"{name} {part}": said
            for name in (arguments.networks or GOOD)
            for part in (0, 1)
            if (said := calibrated(load(ROWS[name], data), samples_of(name, data / "data", part), **quick)[1])
        }
    print("\n| kind | named | missed | largest loss |\n|---|---|---|---|")
    for kind, names in missed.items():
        loss = f"{max(costs[kind]):.2f} dB" if costs[kind] else ""
        print(f"| {kind} | {len(networks) - len(names)} of {len(networks)} | {', '.join(names)} | {loss} |")
    print(f"\nremarks on {len(alarms)} of {2 * len(arguments.networks or GOOD)} good sets")
    for name, said in alarms.items():
        print(f"{name}: {said}")


if __name__ == "__main__":
    main()
