"""Compile one file for several chips and modes, and compare the simulators' outputs with ONNX Runtime's."""

from __future__ import annotations

import re
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import tpuc
from tpuc.errors import TpucError
from tpuc_driver.session.compare import compare, tolerance_of
from tpuc_driver.similarity import similarity

from benchmarks.architectures.rounding import rounded
from benchmarks.architectures.row import Architecture

SAMPLES = 4
"""For int8, of which the first one is compared: enough to see that a network compiles, not how exact it can be."""
OPTIONS = {"--cpu-ops all": {"cpu_ops": ["all"]}}
"""Tried where the plain compilation is refused."""

Result = dict[str, Any]
Arrays = Mapping[str, np.ndarray]
Run = Callable[[Any], Arrays]
Judge = Callable[[Run, str], Result]
"""Compares what a network gives, compiled in a mode, with the reference."""


def measure(
    file: Path, row: Architecture, steps: Sequence[str], memory: int, seconds_limit: int
) -> Iterator[tuple[str, Result]]:
    """The results of the steps: `import`, or a chip and a mode."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    limit_seconds(seconds_limit)
    samples = [{one.name: one.array(seed) for one in row.inputs} for seed in range(SAMPLES)]
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    settings.log_severity_level = 4
    engine = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
    names = {one.name for one in engine.get_inputs()}
    samples = [{name: array for name, array in sample.items() if name in names} for sample in samples]
    wanted = dict(zip([one.name for one in engine.get_outputs()], engine.run(None, samples[0]), strict=True))

    def judged(run: Run, mode: str) -> Result:
        """What a network gives for the first sample, beside the reference."""
        return compared(lambda: matched(run(samples[0]), wanted) if row.selects else run(samples[0]), wanted, mode)

    start = time.process_time()
    try:
        network = tpuc.load(file)
    except Exception as error:  # noqa: BLE001  # any failure is a result
        yield "import", failure(error)
        return
    seconds = time.process_time() - start
    if "import" in steps:
        yield "import", {**judged(network.run, "f32"), "seconds": round(seconds, 2)}
    table = ""
    with tempfile.TemporaryDirectory() as folder:
        for step in steps:
            if step == "import":
                continue
            limit_seconds(seconds_limit)
            chip, mode = step.split()
            try:
                if mode.startswith("int8") and not table:
                    table = str(Path(folder) / "table")
                    given = {name: np.stack([sample[name] for sample in samples]) for name in samples[0]}
                    network.quantize(given, tune_num=0, bias_num=0).save_table(table)
            except Exception as error:  # noqa: BLE001  # any failure is a result
                table = ""
                yield step, failure(error)
                continue
            result = compiled(network, chip, mode, table, judged)
            if result["result"] == "wrong":
                result |= {"rounding": judged(partial(_rounded, network, samples, mode), mode)["decibels"]}
            yield step, result


def _rounded(network: tpuc.Network, samples: Sequence[Arrays], mode: str, _: Any) -> Arrays:
    """The network on the host, with nothing but the mode's rounding."""
    return rounded(network.module, samples, mode)


def limit_seconds(limit: int) -> None:
    """From now on this process may take so many seconds of processor time; then the system ends it."""
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + limit, hard))


def matched(found: Arrays, wanted: Arrays) -> Arrays:
    """The rows of all outputs together, nearest pairs first, at the places of their partners; each row has one. Scores
    closer than the rounding of a mode permute selected queries, which changes no query.
    """
    ours, theirs = (
        np.concatenate([np.asarray(arrays[name])[0].astype(np.float64) for name in wanted], axis=1)
        for arrays in (found, wanted)
    )
    distance = np.square(theirs[:, None] - ours[None]).sum(-1)
    order = np.empty(len(theirs), int)
    for _ in order:
        place, partner = np.unravel_index(distance.argmin(), distance.shape)
        order[place] = partner
        distance[place], distance[:, partner] = np.inf, np.inf
    return {name: np.asarray(found[name])[:, order] for name in wanted}


def compiled(network: tpuc.Network, chip: str, mode: str, table: str, judged: Judge) -> Result:
    """The result on a chip, without options if that goes."""
    first = _compiled(network, chip, mode, table, judged, {})
    if first["result"] != "refused":
        return first
    for words, options in OPTIONS.items():
        other = _compiled(network, chip, mode, table, judged, options)
        if other["result"] not in ("refused", "failed"):
            return {**other, "option": words, "why": first["why"]}
    return first


def _compiled(
    network: tpuc.Network, chip: str, mode: str, table: str, judged: Judge, options: Mapping[str, Any]
) -> Result:
    start = time.process_time()
    try:
        if mode.startswith("int8"):
            made = network.quantize(table=table, mode=mode).compile(chip, **options)
        else:
            made = network.compile(chip, mode=mode, **options)
    except Exception as error:  # noqa: BLE001  # any failure is a result
        return failure(error)
    report = made.report
    told: Result = {"seconds": round(time.process_time() - start, 2)}
    if report is not None:
        told |= {"cycles": report.cycles}
        if report.host_functions:
            told |= {"host": sorted({time.function for time in report.host_functions})}
    return {**judged(made.run, mode), **told}


def compared(run: Any, wanted: Arrays, mode: str, near: tuple[float, float] | None = None) -> Result:
    """Beside the reference: `equal` within the mode's bound, or `wrong`. `close` is one that is so by `near` alone."""
    try:
        found = run()
    except Exception as error:  # noqa: BLE001  # any failure is a result
        return {**failure(error), "result": "failed"}
    ours = {name: np.asarray(found[name]).astype(np.float64) for name in wanted}
    theirs = {name: array.astype(np.float64) for name, array in wanted.items()}
    result: Result = {"result": "equal"}
    try:
        if compare("outputs", ours, theirs, tolerance_of(mode, ()), near=near).close:
            result["close"] = True
    except TpucError as error:
        result = {"result": "wrong", "why": sentence(error)}
    scores = [similarity(ours[name], theirs[name]) for name in wanted if ours[name].shape == theirs[name].shape]
    if scores:
        result |= {"cosine": _number(min(one.cosine for one in scores), 6)}
        result |= {"euclidean": _number(min(one.euclidean for one in scores), 4)}
        result |= {"decibels": _number(min(one.sqnr_db for one in scores), 1)}
    return result


def _number(value: float, digits: int) -> float:
    """Rounded, and within what JSON has."""
    return round(float(np.clip(value, -999, 999)), digits)


def failure(error: Exception) -> Result:
    """`refused` in a sentence of ours, `memory`, or `failed` by any other error."""
    if isinstance(error, TpucError):
        return {"result": "refused", "why": sentence(error)}
    if isinstance(error, MemoryError):
        return {"result": "memory", "why": "no memory left"}
    return {"result": "failed", "why": f"{type(error).__name__}: {sentence(error)}"}


def sentence(error: Exception) -> str:
    """In one line, without the folder of the file."""
    return re.sub(r"/\S*/(?=\S+\.(?:onnx|tflite))", "", " ".join(str(error).split()))[:400]
