"""Suggest the preset with which a network that is mostly wrong becomes right: its preprocessing was probably wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import Registry
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import Alternative, Job, Pool, SampleInput, alternatives, one_of, units_of

from tpuc_eval.job import EvaluationJob, fitting
from tpuc_eval.protocols import Sample

LEAST, SAMPLES = 10, 16
"""Minimum number of samples for a remark, and number of samples run with every preset."""
POOR = 0.5
"""Share of right predictions from which presets are not tried."""
GAIN = 4
"""How many more of those samples another preset must get right."""


@dataclass(frozen=True)
class Found:
    """The names of other presets, and for each whether the prediction for a sample is right."""

    names: tuple[tuple[str, ...], ...] = ()
    right: tuple[bool, ...] = ()


@dataclass(frozen=True)
class PresetTrials(Job[list[Found]]):
    """Evaluates samples at `places` with every preset to which their values can be converted."""

    evaluation: EvaluationJob
    places: tuple[int, ...]
    truths: tuple[Any, ...]

    def prepare(self) -> Callable[[range], list[Found]]:
        job = self.evaluation
        opened = job.network.open(_unheard)
        if len(opened.inputs) != 1:
            return lambda unit: [Found()] * len(unit)
        (one,) = opened.inputs
        samples = [job.samples.read(place, opened.inputs) for place in self.places]
        ways = _ways(one, samples)
        known = job.candidates if job.is_named or opened.reader is None else (opened.reader,)

        def right(way: Alternative, sample: Sample, truth: Any) -> bool:
            rows: list[Mapping[str, Array]] = [{one.name: way.of(row[one.name])} for row in sample.rows]
            outputs = opened.run(rows)
            read = known[0] if len(known) == 1 else fitting(known, outputs, sample, str(job.network.path))
            return bool(job.metric.is_right(job.metric.digest(read(outputs, sample), ""), truth))

        def tried(index: int) -> Found:
            sample, truth = samples[index], self.truths[index]
            return Found(tuple(way.names for way in ways), tuple(right(way, sample, truth) for way in ways))

        return lambda unit: [tried(index) for index in unit]


def _ways(one: SampleInput, samples: Sequence[Sample]) -> list[Alternative]:
    values = [row[one.name] for sample in samples for row in sample.rows]
    return alternatives(one, Registry(), (min(float(x.min()) for x in values), max(float(x.max()) for x in values)))


def better_preset(
    evaluation: EvaluationJob, places: Sequence[int], digests: Sequence[Any], truths: Sequence[Any], pool: Pool
) -> str:
    """Return a sentence if most predictions are wrong and another preset gets clearly more right on a few samples."""
    right = [evaluation.metric.is_right(*pair) for pair in zip(digests, truths, strict=True)]
    if len(right) < LEAST or None in right or sum(map(bool, right)) >= POOR * len(right):
        return ""
    count = min(SAMPLES, len(right))
    chosen = [int((index + 0.5) * len(right) / count) for index in range(count)]
    trials = PresetTrials(
        evaluation, tuple(places[index] for index in chosen), tuple(truths[index] for index in chosen)
    )
    found = [one for unit in pool.map(trials, units_of(len(chosen), 1)) for one in unit]
    counts = np.array([one.right for one in found]).sum(0).tolist()
    now = sum(bool(right[index]) for index in chosen)
    best = max(counts, default=0)
    if best < now + GAIN:
        return ""
    names = [name for one, count in zip(found[0].names, counts, strict=True) if count == best for name in one]
    return (
        f"{evaluation.network.path}: {sum(map(bool, right))} of {len(right)} predictions are right; with preset "
        f"{one_of(names)} {best} of {count} samples are, instead of {now}: check the preprocessing (--preprocess)"
    )


def _unheard(text: str) -> None:
    """These remarks have been made already."""
    del text
