"""Prediction rules of outputs (class, detection, number), and the agreement of two runs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from tpuc.api.evaluation import Array
from tpuc_ops import elementary

from tpuc_quantize.metrics.companding import sigmoid
from tpuc_quantize.metrics.output_groups import Part
from tpuc_quantize.options.tuning import AGREEMENT

T = TypeVar("T")
Outputs: TypeAlias = Mapping[str, Array]
"""The outputs of a network for one sample, by the names in the module passed to `task_metrics_of`."""


class CachedOutputs(dict[str, Array]):
    """The outputs of one sample, with cached results of task metrics."""

    def __init__(self, outputs: Outputs) -> None:
        super().__init__(outputs)
        self.results: dict[Callable[[Outputs], object], Any] = {}


def _once(compute: Callable[[Outputs], T], outputs: Outputs) -> T:
    """The result of a metric's method, computed once for cached outputs."""
    if not isinstance(outputs, CachedOutputs):
        return compute(outputs)
    if compute not in outputs.results:
        outputs.results[compute] = compute(outputs)
    return outputs.results[compute]


@dataclass(frozen=True)
class Agreement:
    """The number of equal predictions, and of all predictions."""

    same: int = 0
    total: int = 0

    def __add__(self, other: Agreement) -> Agreement:
        return Agreement(self.same + other.same, self.total + other.total)

    @property
    def share(self) -> float:
        """From 0 to 1; 1 where there are no predictions."""
        return self.same / self.total if self.total else 1.0


@dataclass(frozen=True)
class TaskMetric(ABC):
    """The predictions in one part of an output."""

    kind: ClassVar[str]
    part: Part

    @property
    def name(self) -> str:
        """The name of the part's value."""
        return self.part.name

    @abstractmethod
    def sample_agreement(self, reference: Outputs, got: Outputs) -> Agreement:
        """The predictions of one sample."""

    def prediction(self, outputs: Outputs) -> Array:
        """The part as its reader uses it: without differences that affect no prediction, such as those of saturated
        logits.
        """
        return _once(self._prediction, outputs)

    @abstractmethod
    def _prediction(self, outputs: Outputs) -> Array:
        """Computes `prediction`."""

    def weights(self, reference: Outputs) -> Array | float:
        """The weight of errors, element by element."""
        del reference
        return 1.0

    def energies(self, reference: Outputs, got: Outputs) -> tuple[float, float]:
        """Signal and noise energy of the part's prediction for one sample; NaN makes the noise infinite."""
        a, b = self.prediction(reference), self.prediction(got)
        if not np.isfinite(b).all():
            return 0.0, math.inf
        weights = self.weights(reference)
        return float((weights * a * a).sum()), float((weights * (a - b) ** 2).sum())

    def agreement(self, reference: Sequence[Outputs], got: Sequence[Outputs]) -> Agreement:
        """The agreement over several samples."""
        return sum((self.sample_agreement(a, b) for a, b in zip(reference, got, strict=True)), Agreement())


@dataclass(frozen=True)
class Presence(TaskMetric):
    """Presence of an object at each place: scores from 0 to 1, their logarithms, or with a `scale` logits times
    that.
    """

    kind = "presence"
    scale: float | None = None
    is_log: bool = False

    def _prediction(self, outputs: Outputs) -> Array:
        x = self.part.of(outputs).astype(np.float64)
        if self.is_log:
            return elementary.exp(np.minimum(x, 0.0))
        return x if self.scale is None else sigmoid(x / self.scale)

    def sample_agreement(self, reference: Outputs, got: Outputs) -> Agreement:
        a, b = self.prediction(reference), self.prediction(got)
        counted = (a >= AGREEMENT.sure) | (b >= AGREEMENT.sure)
        return _counted(counted, (a > 0.5) & (b > 0.5))

    def confidence(self, outputs: Outputs) -> Array:
        """The confidence that something is present at each place; see `Numbers`."""
        return self.prediction(outputs)


@dataclass(frozen=True)
class Classes(TaskMetric):
    """The class along an axis: probabilities, their logarithms, or with a `scale` logits times that.

    With a `background`, the class of most places, only places of other classes count.
    """

    kind = "classes"
    axis: int
    scale: float | None = None
    is_log: bool = False
    background: int | None = None

    def _prediction(self, outputs: Outputs) -> Array:
        x = self.part.of(outputs).astype(np.float64)
        if self.is_log:
            return elementary.exp(np.minimum(x, 0.0))
        return x if self.scale is None else softmax(x / self.scale, self.axis)

    def sample_agreement(self, reference: Outputs, got: Outputs) -> Agreement:
        pair = [self.prediction(outputs) for outputs in (reference, got)]
        a, b = (one.argmax(self.axis) for one in pair)
        finite = np.isfinite(pair[1]).all(self.axis)
        if self.background is None:
            return Agreement(int(((a == b) & finite).sum()), a.size)
        confident = [
            (best != self.background) & (one.max(self.axis) >= AGREEMENT.sure)
            for best, one in zip((a, b), pair, strict=True)
        ]
        return _counted(confident[0] | confident[1], (a == b) & finite)

    def confidence(self, outputs: Outputs) -> Array:
        """The confidence that each place is not background; see `Numbers`."""
        probabilities = self.prediction(outputs)
        if self.background is None:
            return probabilities.max(self.axis)
        return 1.0 - probabilities.take(self.background, self.axis)


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a part's places, without the axis of their classes, if any. `chosen` selects the part's places
    where it covers only some of the scored ones.
    """

    metric: Presence | Classes
    axis: int | None
    chosen: Array | None = None

    def of(self, outputs: Outputs) -> Array:
        scores = self.metric.confidence(outputs)
        every = (scores if self.axis is None else scores.max(self.axis)).reshape(-1)
        return every if self.chosen is None else every[self.chosen]


@dataclass(frozen=True)
class Numbers(TaskMetric):
    """Boxes, positions, values: they agree when close enough. `axis` holds the numbers of a place, weighted by the
    `scores` of the places.
    """

    kind = "numbers"
    axis: int = -1
    scores: tuple[Scored, ...] = ()

    def _prediction(self, outputs: Outputs) -> Array:
        return np.moveaxis(np.atleast_1d(self.part.of(outputs).astype(np.float64)), self.axis, -1)

    def weights(self, reference: Outputs) -> Array | float:
        found = self._scores(reference)
        return 1.0 if found is None else np.maximum(found, AGREEMENT.unseen_weight)[..., None]

    def sample_agreement(self, reference: Outputs, got: Outputs) -> Agreement:
        a, b = self.prediction(reference), self.prediction(got)
        found = self._scores(reference)
        if found is not None:
            a, b = a[found >= AGREEMENT.sure], b[found >= AGREEMENT.sure]
            if not a.size:
                return Agreement()
        is_close = float(((a - b) ** 2).sum()) <= AGREEMENT.near**2 * float((a * a).sum())
        return Agreement(int(is_close), 1)

    def _scores(self, outputs: Outputs) -> Array | None:
        return _once(self._computed_scores, outputs)

    def _computed_scores(self, outputs: Outputs) -> Array | None:
        if not self.scores:
            return None
        found = np.prod([one.of(outputs) for one in self.scores], axis=0)
        shape = self.part.shape
        axis = self.axis % len(shape)
        return found.reshape(*shape[:axis], *shape[axis + 1 :])


@dataclass(frozen=True)
class Labels(TaskMetric):
    """Integers, which are right or wrong."""

    kind = "labels"

    def _prediction(self, outputs: Outputs) -> Array:
        return self.part.of(outputs).astype(np.float64)

    def sample_agreement(self, reference: Outputs, got: Outputs) -> Agreement:
        same = self.part.of(reference) == self.part.of(got)
        return Agreement(int(same.sum()), same.size)


def _counted(counted: Array, same: Array) -> Agreement:
    """The agreement of the confident predictions; having none is one prediction, on which both agree."""
    total = int(counted.sum())
    return Agreement(int((counted & same).sum()), total) if total else Agreement(1, 1)


def softmax(x: Array, axis: int) -> Array:
    """The probabilities of logits."""
    powers = elementary.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)
