"""A figure of `tpuc eval` as a measure of accuracy, for `tpuc compile --min-accuracy`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpuc.api import CalibrationError, Module, UsageError
from tpuc_driver.api.accuracy import AccuracyMeasure, Measured, OpenedMeasure

from tpuc_eval.job import EvaluationJob
from tpuc_eval.options import candidates, chosen_metric, configured, usual_type
from tpuc_eval.protocols import DataRequest, DatasetType
from tpuc_eval.runnable import RunnableModule

APART = 3
"""One labelled sample in so many is held out of the search,"""
ENOUGH = 30
"""where there are so many."""


@dataclass(frozen=True)
class Labels(AccuracyMeasure):
    """A figure of a metric on labelled data; the options are those of `tpuc eval`. Without `dataset` the data are those
    of the calibration. `figure` names one of the metric's, the first one if it is left out.
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
                f"measure 'labels' takes one data set and was given {len(paths)}; name it: labels{{dataset=PATH}}."
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
        figures = self._figures(job, self._places[0])
        self._figure = figure or next(iter(figures))
        if self._figure not in figures:
            raise UsageError(f"metric '{metric.name}' has no figure '{figure}'; there are {', '.join(figures)}.")
        self.name, self.exact = self._figure, figures[self._figure]
        self.exact_held_out = self._figures(job, self._places[1])[self._figure] if self.held_out else self.exact

    def of(self, tpu: Module, *, held_out: bool = False) -> float:
        """See OpenedMeasure."""
        job = dataclasses.replace(self._job, network=RunnableModule(tpu))
        return self._figures(job, self._places[held_out])[self._figure]

    def _figures(self, job: EvaluationJob, places: Sequence[int]) -> dict[str, float]:
        run = job.prepare()
        results = [run(range(place, place + 1)) for place in places]
        digests: dict[int, Any] = {index: digest for result in results for index, digest in result.digests}
        if not digests:
            raise CalibrationError(results[0].unusable[0][1])
        truths = [job.samples.truth(index) for index in digests]
        return dict(job.metric.evaluate(list(digests.values()), truths, job.samples.classes))
