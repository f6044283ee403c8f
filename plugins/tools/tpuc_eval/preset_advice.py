"""Suggest the preset with which a network becomes right more often: its preprocessing was probably wrong."""

from __future__ import annotations

import math
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
"""Minimum number of samples for a remark on a network that is mostly wrong, and number run with every preset then."""
ENOUGH, MOST, PART = 32, 64, 8
"""Other networks: minimum and maximum number of samples, one in `PART` of which are run with every preset. The others
are run with presets that promise more, so the advice costs about as much as the evaluation.
"""
POOR = 0.5
"""Share of right predictions below which a network is mostly wrong."""
GAIN = 4
"""How many more samples another preset must get right where predictions have no probabilities."""
SURE = 3.0
"""Mean gain in the logarithm of the truth's probability over its standard error: chance alone gives this in 1 of 400
cases with 32 samples.
"""


@dataclass(frozen=True)
class Found:
    """Of a sample, unchanged and then with each preset: whether the prediction is right, and the logarithm of the
    probability of the truth, NaN if there is none.
    """

    ways: tuple[Alternative, ...] = ()
    right: tuple[bool, ...] = ()
    fits: tuple[float, ...] = ()


@dataclass(frozen=True)
class PresetTrials(Job[list[Found]]):
    """Evaluates samples at `places` unchanged and with `ways`, or with all presets to which they can be converted."""

    evaluation: EvaluationJob
    places: tuple[int, ...]
    truths: tuple[Any, ...]
    ways: tuple[Alternative, ...] | None = None

    def prepare(self) -> Callable[[range], list[Found]]:
        job = self.evaluation
        opened = job.network.open(_unheard)
        if len(opened.inputs) != 1:
            return lambda unit: [Found()] * len(unit)
        (one,) = opened.inputs
        samples = [job.samples.read(place, opened.inputs) for place in self.places]
        ways = tuple(_ways(one, samples)) if self.ways is None else self.ways
        known = job.candidates if job.is_named or opened.reader is None else (opened.reader,)

        def judged(way: Alternative | None, sample: Sample, truth: Any) -> tuple[bool, float]:
            rows: list[Mapping[str, Array]] = [
                row if way is None else {one.name: way.of(row[one.name])} for row in sample.rows
            ]
            outputs = opened.run(rows)
            read = known[0] if len(known) == 1 else fitting(known, outputs, sample, str(job.network.path))
            prediction = read(outputs, sample)
            fit = job.metric.fit(prediction, truth)
            is_right = bool(job.metric.is_right(job.metric.digest(prediction, ""), truth))
            return is_right, math.nan if fit is None else fit

        def tried(index: int) -> Found:
            pairs = [judged(way, samples[index], self.truths[index]) for way in (None, *ways)]
            return Found(ways, *zip(*pairs, strict=True))

        return lambda unit: [tried(index) for index in unit]


@dataclass(frozen=True)
class Trials:
    """The results of samples with presets."""

    found: Sequence[Found]

    @property
    def counts(self) -> list[int]:
        """The number of right predictions, unchanged and with each preset."""
        return np.array([one.right for one in self.found], int).sum(0).tolist()

    def gain(self, way: int) -> float:
        """The mean gain of a preset over its standard error: at least `SURE` if it is clearly better."""
        gains = np.array([one.fits[way + 1] - one.fits[0] for one in self.found])
        if np.isnan(gains).any():
            return SURE * (self.counts[way + 1] - self.counts[0]) / GAIN
        error = float(gains.std()) / math.sqrt(gains.size)
        return float(gains.mean()) / error if error else 0.0


def _ways(one: SampleInput, samples: Sequence[Sample]) -> list[Alternative]:
    values = [row[one.name] for sample in samples for row in sample.rows]
    return alternatives(one, Registry(), (min(float(x.min()) for x in values), max(float(x.max()) for x in values)))


def better_preset(
    evaluation: EvaluationJob, places: Sequence[int], digests: Sequence[Any], truths: Sequence[Any], pool: Pool
) -> str:
    """Return a sentence if another preset gets clearly more right on some samples."""
    right = [evaluation.metric.is_right(*pair) for pair in zip(digests, truths, strict=True)]
    is_poor = None not in right and sum(map(bool, right)) < POOR * len(right)
    if None in right or len(right) < (LEAST if is_poor else ENOUGH):
        return ""

    def trials(indices: Sequence[int], ways: tuple[Alternative, ...] | None) -> list[Found]:
        chosen, own = (tuple(one[index] for index in indices) for one in (places, truths))
        job = PresetTrials(evaluation, chosen, own, ways)
        return [one for unit in pool.map(job, units_of(len(indices), 1)) for one in unit]

    indices = _spread(len(right), min(MOST, len(right)))
    early = _spread(len(right), min(SAMPLES, len(right))) if is_poor else indices[::PART]
    first = Trials(trials(early, None))
    kept = tuple(way for way in range(len(first.found[0].ways)) if first.gain(way) > 0)
    if not kept:
        return ""
    again = [_only(one, kept) for one in first.found]
    left = [index for index in indices if index not in set(early)]
    whole = Trials([*again, *(trials(left, again[0].ways) if left else ())])
    now, *counts = whole.counts
    sure = [way for way, count in enumerate(counts) if count >= now and whole.gain(way) >= SURE]
    if not sure:
        return ""
    best = max(sure, key=lambda way: counts[way])
    names = [name for way in sure if counts[way] == counts[best] for name in again[0].ways[way].names]
    raised = sum(one.fits[best + 1] > one.fits[0] for one in whole.found)
    probable = f", and {raised} labels are more probable" if raised else ""
    return (
        f"{evaluation.network.path}: {sum(map(bool, right))} of {len(right)} predictions are right; with preset "
        f"{one_of(names)} {counts[best]} of {len(whole.found)} samples are, instead of {now}{probable}: check the "
        "preprocessing (--preprocess)"
    )


def _spread(count: int, chosen: int) -> list[int]:
    return [int((index + 0.5) * count / chosen) for index in range(chosen)]


def _only(one: Found, ways: Sequence[int]) -> Found:
    """The same with some of the presets."""
    places = (0, *(way + 1 for way in ways))
    return Found(
        tuple(one.ways[way] for way in ways),
        tuple(one.right[place] for place in places),
        tuple(one.fits[place] for place in places),
    )


def _unheard(text: str) -> None:
    """These remarks have been made already."""
    del text
