"""Evaluate networks on one data set and compare them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tpuc.api import CalibrationError
from tpuc_driver.api.host import Pool, units_of

from tpuc_eval.job import EvaluationJob
from tpuc_eval.preset_advice import better_preset
from tpuc_eval.protocols import LabeledSamples, Metric, Postprocess
from tpuc_eval.runnable import RunnableFile

Progress = Callable[[Iterable[Any], str, "int | None"], Iterable[Any]]
Remark = Callable[[str], None]

SHOWN_SKIPPED = 5
"""Number of skipped samples listed in the report; the others are counted."""


@dataclass(frozen=True)
class Predictions:
    """The predictions of a network for all samples that it accepts."""

    digests: Mapping[int, Any]
    unusable: Mapping[int, str]


@dataclass(frozen=True)
class NetworkFigures:
    """The metrics of one network; `agreement` is with the first network."""

    model: str
    figures: Mapping[str, float]
    agreement: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Evaluation:
    """All networks evaluated on the same samples."""

    dataset: str
    metric: str
    samples: int
    skipped: tuple[tuple[str, str], ...]
    networks: tuple[NetworkFigures, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain values; undefined figures are null."""
        first = self.networks[0].figures
        return {
            "dataset": self.dataset,
            "metric": self.metric,
            "samples": self.samples,
            "skipped": [{"sample": name, "reason": reason} for name, reason in self.skipped],
            "models": [
                {"model": one.model, "figures": _plain(one.figures)}
                | (
                    {
                        "difference": _plain({name: value - first[name] for name, value in one.figures.items()}),
                        "agreement": _plain(one.agreement),
                    }
                    if index
                    else {}
                )
                for index, one in enumerate(self.networks)
            ],
        }

    def rows(self) -> list[list[str]]:
        """Return a table: a row per figure, a column per network, and differences to the first network."""
        names = _short([one.model for one in self.networks])
        first = self.networks[0]
        rows = [["", *names[:1], *(label for name in names[1:] for label in (name, "difference"))]]
        for figure, value in first.figures.items():
            cells = [_shown(value)]
            for one in self.networks[1:]:
                cells += [_shown(one.figures[figure]), _shown(one.figures[figure] - value, "+")]
            rows.append([figure, *cells])
        return rows + [
            [name, "", *(cell for one in self.networks[1:] for cell in (_shown(one.agreement[name]), ""))]
            for name in self.networks[-1].agreement
        ]


def evaluate(
    networks: Sequence[RunnableFile],
    samples: LabeledSamples,
    metric: Metric,
    candidates: Sequence[Postprocess],
    pool: Pool,
    *,
    dataset: str,
    strict: bool,
    progress: Progress,
    remark: Remark,
    is_named: bool = False,
) -> Evaluation:
    """Run every network over the samples; those that one network does not accept are skipped for all. `is_named`: the
    user named the post-processing.

    Raises CalibrationError if nothing remains, or with `strict` for the first unusable sample.
    """
    predictions = [
        _predictions(
            EvaluationJob(network, samples, metric, tuple(candidates), is_named), pool, strict, progress, remark
        )
        for network in networks
    ]
    reasons = {index: reason for one in reversed(predictions) for index, reason in one.unusable.items()}
    used = [index for index in range(len(samples)) if index not in reasons]
    _tell_skipped(samples, reasons, remark)
    if not used:
        raise CalibrationError(f"{dataset}: none of {len(samples)} samples is usable. {reasons[min(reasons)]}")
    truths = [samples.truth(index) for index in used]
    digests = [[one.digests[index] for index in used] for one in predictions]
    figures = tuple(
        NetworkFigures(
            str(network.path),
            metric.evaluate(own, truths, samples.classes),
            metric.agreement(digests[0], own) if number else {},
        )
        for number, (network, own) in enumerate(zip(networks, digests, strict=True))
    )
    job = EvaluationJob(networks[0], samples, metric, tuple(candidates), is_named)
    if hint := better_preset(job, used, digests[0], truths, pool):
        remark(hint)
    skipped = tuple((samples.name(index), reasons[index]) for index in sorted(reasons))
    return Evaluation(dataset, metric.name, len(used), skipped, figures)


def _predictions(job: EvaluationJob, pool: Pool, strict: bool, progress: Progress, remark: Remark) -> Predictions:
    units = units_of(len(job.samples))
    digests: dict[int, Any] = {}
    unusable: dict[int, str] = {}
    printed: set[str] = set()
    for result in progress(pool.map(job, units), f"running {job.network.path.name}", len(units)):
        if strict and result.unusable:
            raise CalibrationError(result.unusable[0][1])
        digests.update(result.digests)
        unusable.update(result.unusable)
        for text in result.remarks:
            if text not in printed:
                printed.add(text)
                remark(text)
    return Predictions(digests, unusable)


def _tell_skipped(samples: LabeledSamples, reasons: Mapping[int, str], remark: Remark) -> None:
    if not reasons:
        return
    for index in sorted(reasons)[:SHOWN_SKIPPED]:
        remark(f"skipped: {reasons[index]}")
    more = f", the first {SHOWN_SKIPPED} are listed above" if len(reasons) > SHOWN_SKIPPED else ""
    remark(f"{len(reasons)} of {len(samples)} samples skipped{more}; --strict makes this an error")


def _plain(figures: Mapping[str, float]) -> dict[str, float | None]:
    return {name: None if math.isnan(value) else value for name, value in figures.items()}


def _shown(value: float, sign: str = "") -> str:
    return "-" if math.isnan(value) else f"{value:{sign}.4f}"


def _short(paths: Sequence[str]) -> list[str]:
    """Return file names, or whole paths if two are equal."""
    names = [path.replace("\\", "/").rsplit("/", maxsplit=1)[-1] for path in paths]
    return names if len(set(names)) == len(names) else list(paths)
