"""A metric of `tpuc eval` as the accuracy measure of `tpuc compile --min-accuracy`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from tpuc.api import CalibrationError, Module, UsageError
from tpuc_driver.api.accuracy import AccuracyMeasure, Measured, OpenedMeasure
from tpuc_driver.api.host import share_interval

from tpuc_eval.job import EvaluationJob
from tpuc_eval.options import candidates, chosen_metric, configured, usual_type
from tpuc_eval.protocols import DataRequest, DatasetType
from tpuc_eval.runnable import RunnableModule

APART = 3
"""One in this many labeled samples is held out of the search,"""
ENOUGH = 30
"""if there are this many."""
RESAMPLES = 400
"""Bootstrap resamples; intervals need some hundreds (Efron and Tibshirani, "An Introduction to the Bootstrap",
1993).
"""
SEED = 20

Digests = Mapping[int, Any]


@dataclass(frozen=True)
class Labels(AccuracyMeasure):
    """A figure of a metric on labeled data, with the options of `tpuc eval`. Without `dataset`, the calibration data
    are used. `figure` names one of the metric's figures; default: the first one.
    """

    name = "labels"
    dataset: str = ""
    dataset_type: str = ""
    metric: str = ""
    figure: str = ""
    postprocess: str = ""
    label_file: str = ""
    label_offset: int = 0
    annotation: str = ""
    count: int = 0

    def open(self, measured: Measured) -> OpenedMeasure:
        """See AccuracyMeasure."""
        registry, paths = measured.registry, [Path(self.dataset)] if self.dataset else list(measured.paths)
        if len(paths) != 1:
            raise UsageError(
                f"measure 'labels' takes one data set, but {len(paths)} were given; choose one: labels{{dataset=PATH}}."
            )
        form: DatasetType = configured(registry, "tpuc.datasets", self.dataset_type or usual_type(paths[0]))
        metric = chosen_metric(registry, self.metric or form.metric)
        label_file, annotation = (Path(text) if text else None for text in (self.label_file, self.annotation))
        request = DataRequest(paths[0], label_file, annotation, self.count, self.label_offset)
        samples = form.open(request, measured.remark)
        if refusal := metric.refuse(samples.truth(0)):
            raise UsageError(refusal)
        chosen = candidates(registry, self.postprocess or metric.postprocess)
        job = EvaluationJob(RunnableModule(measured.module), samples, metric, tuple(chosen), bool(self.postprocess))
        return _Opened(job, self.figure)


class _Opened(OpenedMeasure):
    def __init__(self, job: EvaluationJob, figure: str) -> None:
        self._job, self._figure, samples, metric = job, figure, job.samples, job.metric
        apart = range(APART - 1, len(samples), APART) if len(samples) >= ENOUGH else range(0)
        self._places = [[place for place in range(len(samples)) if place not in apart], list(apart)]
        self.samples, self.held_out = (len(places) for places in self._places)
        self._exact = [self._digests(job, places) for places in self._places if places]
        figures = self._figures(self._exact[0], list(self._exact[0]))
        self._figure = figure or next(iter(figures))
        if self._figure not in figures:
            raise UsageError(f"metric '{metric.name}' has no figure '{figure}'; choose one of {', '.join(figures)}.")
        self.name, self.exact = self._figure, figures[self._figure]
        self.exact_held_out = self._of(self._exact[-1])
        self._found: Digests = self._exact[-1]

    def of(self, tpu: Module, *, held_out: bool = False) -> float:
        """See OpenedMeasure."""
        job = dataclasses.replace(self._job, network=RunnableModule(tpu))
        self._found = self._digests(job, self._places[held_out])
        return self._of(self._found)

    def interval(self, figure: float, confidence: float, *, paired: bool) -> tuple[float, float]:
        """See OpenedMeasure: bootstrap over samples; if `paired`, of the difference to the float network.

        If no resample differs, the interval would be a point; it is at least as wide as Wilson's interval for samples
        that all agree.
        """
        exact = self._exact[-1]
        places = [place for place in self._found if place in exact]
        random = np.random.default_rng(SEED)
        figures = list[float]()
        for _ in range(RESAMPLES):
            drawn = [places[int(at)] for at in random.integers(len(places), size=len(places))]
            figures.append(self._of(self._found, drawn) - (self._of(exact, drawn) if paired else 0.0))
        tail = (1 - confidence) / 2
        low, high = np.quantile(figures, (tail, 1 - tail)) + (self.exact_held_out if paired else 0.0)
        return min(float(low), figure * share_interval(1.0, len(places), confidence).low), max(float(high), figure)

    def _digests(self, job: EvaluationJob, places: Sequence[int]) -> Digests:
        run = job.prepare()
        results = [run(range(place, place + 1)) for place in places]
        digests: dict[int, Any] = {index: digest for result in results for index, digest in result.digests}
        if not digests:
            raise CalibrationError(results[0].unusable[0][1])
        return digests

    def _of(self, digests: Digests, places: Sequence[int] | None = None) -> float:
        return self._figures(digests, list(digests) if places is None else places)[self._figure]

    def _figures(self, digests: Digests, places: Sequence[int]) -> dict[str, float]:
        truths = [self._job.samples.truth(place) for place in places]
        samples = self._job.samples
        return dict(self._job.metric.evaluate([digests[place] for place in places], truths, samples.classes))
