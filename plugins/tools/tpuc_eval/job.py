"""Process a unit of samples: read, run, post-process, and keep what the metric needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tpuc.api import CalibrationError, UsageError
from tpuc_driver.api.host import Job

from tpuc_eval.protocols import LabeledSamples, Metric, Outputs, Postprocess, Sample, plain_shape
from tpuc_eval.runnable import Runnable


@dataclass(frozen=True)
class UnitResult:
    """The digest of every usable sample, and the reason for every other one, by index."""

    digests: tuple[tuple[int, Any], ...]
    unusable: tuple[tuple[int, str], ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class EvaluationJob(Job[UnitResult]):
    """One network over the samples. `candidates`: post-processings, at most one of which fits the outputs. If the user
    named none, one stored in the network takes precedence.
    """

    network: Runnable
    samples: LabeledSamples
    metric: Metric
    candidates: tuple[Postprocess, ...]
    is_named: bool = False

    def prepare(self) -> Callable[[range], UnitResult]:
        remarks: list[str] = []
        opened = self.network.open(remarks.append)
        source = str(self.network.path)
        known = self.candidates if self.is_named or opened.reader is None else (opened.reader,)
        chosen: list[Postprocess] = list(known) if len(known) == 1 else []

        def run(unit: range) -> UnitResult:
            digests: list[tuple[int, Any]] = []
            unusable: list[tuple[int, str]] = []
            for index in unit:
                try:
                    sample = self.samples.read(index, opened.inputs)
                except CalibrationError as error:
                    unusable.append((index, str(error)))
                    continue
                outputs = opened.run(sample.rows)
                if not chosen:
                    chosen.append(fitting(self.candidates, outputs, sample, source))
                digest = self.metric.digest(chosen[0](outputs, sample), source)
                self._check_classes(digest, source, remarks)
                digests.append((index, digest))
            return UnitResult(tuple(digests), tuple(unusable), tuple(remarks))

        return run

    def _check_classes(self, digest: Any, source: str, remarks: list[str]) -> None:
        """Raise UsageError if the labels cannot be classes of this network; doubts become remarks."""
        classes = self.metric.classes_of(digest)
        if classes is None:
            return
        if refusal := self.samples.refuse(classes):
            raise UsageError(f"{source}: {refusal}")
        doubt = self.samples.doubt(classes)
        if doubt and doubt not in remarks:
            remarks.append(doubt)


def fitting(candidates: Sequence[Postprocess], outputs: Outputs, sample: Sample, source: str) -> Postprocess:
    """Return the only post-processing that fits the outputs; raises UsageError if none or several do."""
    shapes = [plain_shape(array.shape) for array in outputs.values()]
    found = [one for one in candidates if one.fits(shapes, sample) and one.reads(outputs, sample)]
    if len(found) == 1:
        return found[0]
    listed = ", ".join(f"{name} {'x'.join(map(str, array.shape))}" for name, array in outputs.items())
    if found:
        names = " and ".join(one.name for one in found)
        raise UsageError(
            f"{source}: several post-processings fit its outputs ({listed}): {names}; choose with --postprocess NAME."
        )
    names = ", ".join(one.name for one in candidates)
    raise UsageError(
        f"{source}: no known post-processing fits its outputs ({listed}); choose with --postprocess: {names}."
    )
