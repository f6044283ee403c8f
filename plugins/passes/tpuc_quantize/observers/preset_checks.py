"""Detect preprocessing under which a classifier is less sure of the samples than it could be, and suggest a preset.

Other presets are tried on few samples, and those that promise more on further ones, sample by sample: a classifier that
was trained with a preset is significantly more confident with it. Pixels of a wrong scale, a missing mean, exchanged
channels, and pictures placed in another way are found by that. Not detected are mistakes that do not make a classifier
less sure, and those of two classes: confidence grows with the scale there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tpuc.api import Module, PassContext
from tpuc.api.evaluation import Array, Interpreter
from tpuc_driver.api.host import (
    Alternative,
    Job,
    Pool,
    PortableModule,
    SampleReader,
    SampleSource,
    alternatives,
    one_of,
    units_of,
)
from tpuc_ops import elementary

from tpuc_quantize.metrics.agreement import softmax
from tpuc_quantize.observers.collector import Outputs
from tpuc_quantize.observers.held_out import spread
from tpuc_quantize.options.budgets import BUDGETS, color_samples
from tpuc_quantize.options.tuning import CHECKS

LEAST = 1e-30
"""Keeps logarithms and quotients finite."""


Run: TypeAlias = Callable[[Sequence[Alternative], Sequence[int]], Sequence[Sequence[Outputs]]]
"""Outputs of the samples at these places, unchanged and with presets, row by row."""


@dataclass(frozen=True)
class PresetScore:
    """The confidence of a classifier's predictions on some samples."""

    confidence: float
    classes: tuple[int, ...]
    information: float
    """How many nats a prediction tells."""
    margins: Array
    """Of the best class over the second, in standard deviations of the logits, by samples, as entropies."""
    entropies: Array

    def gain_of(self, other: PresetScore) -> float:
        """How much more confident the other one is: the mean gain in entropy over its standard error; minus infinity
        where it tells less, is hardly more confident, or has no doubt that a float32 shows. Larger inputs alone
        enlarge the logits: margins in deviations of the logits have to gain as much where most classes are the same,
        and must not fall where this one tells something.
        """
        has_doubts = np.median(other.entropies) > np.finfo(np.float32).eps
        if (
            other.information < self.information
            or other.confidence < self.confidence + CHECKS.preset_gain
            or not has_doubts
        ):
            return -math.inf
        gain, margins = significance(self.entropies - other.entropies), significance(other.margins - self.margins)
        is_same = sum(map(operator.eq, self.classes, other.classes)) > len(self.classes) / 2
        falls = margins < 0 and self.information > other.information / 2
        return min(gain, margins) if is_same or falls else gain


def score_outputs(outputs: Sequence[Outputs]) -> PresetScore | None:
    """The score of a network with one output, a vector of classes per sample; None for other outputs."""
    rows = [array.astype(np.float64).reshape(-1) for one in outputs for array in one.values()]
    if not rows or len(rows) != len(outputs) or rows[0].size < 2:
        return None
    logits = np.stack(rows)
    if not np.isfinite(logits).all():
        return None
    if (logits >= 0).all() and (np.abs(logits.sum(1) - 1) < 1e-3).all():
        logits = elementary.log(logits + LEAST)
    shares = softmax(logits, 1)
    entropies = np.array([_entropy(one) for one in shares])
    total, own = _entropy(shares.mean(0)), float(entropies.mean())
    ranked = np.sort(logits, 1)
    return PresetScore(
        float(shares.max(1).mean()),
        tuple(logits.argmax(1).tolist()),
        total - own,
        (ranked[:, -1] - ranked[:, -2]) / (logits.std(1) + LEAST),
        entropies,
    )


def significance(gains: Array) -> float:
    """The mean gain over its standard error; 0 where nothing is known."""
    error = float(gains.std()) / math.sqrt(gains.size) if gains.size else 0.0
    return float(gains.mean()) / error if error else 0.0


def _entropy(shares: Array) -> float:
    return float(-(shares * elementary.log(shares + LEAST)).sum())


@dataclass(frozen=True)
class PresetJob(Job[list[list[Outputs]]]):
    """Runs samples unchanged and with other presets; None for unreadable samples."""

    network: PortableModule
    samples: SampleSource
    places: tuple[int, ...]
    presets: tuple[Alternative, ...]

    def prepare(self) -> Callable[[range], list[list[Outputs]]]:
        interpreter, reader = Interpreter(self.network.module), SampleReader(self.samples)

        def one(place: int) -> list[Outputs]:
            found = [reader.find(place), *(reader.find_under(place, way) for way in self.presets)]
            return [interpreter.run(sample) for sample in found] if all(found) else []

        return lambda unit: [one(self.places[index]) for index in unit]


def is_classifier(module: Module) -> bool:
    """True for a network whose only output is one vector of classes."""
    outputs = [type_.dims for type_ in Interpreter(module).outputs.values()]
    return len(outputs) == 1 and math.prod(outputs[0]) == max(outputs[0], default=0)


def better_presets(
    network: PortableModule,
    samples: SampleSource,
    ends: tuple[float, float] | None,
    pool: Pool,
    context: PassContext,
) -> Iterable[str]:
    """A sentence where presets make the network significantly more confident. `ends` are the smallest and the largest
    value of all samples.
    """
    (one,) = samples.inputs
    ways, places = (
        alternatives(one, context.registry, ends),
        spread(len(samples), color_samples(network.module, len(samples))),
    )
    if not ways or not len(network.module.weights) or not is_classifier(network.module):
        return

    def run(ways: Sequence[Alternative], places: Sequence[int]) -> list[list[Outputs]]:
        units = units_of(len(places), 1)
        job = PresetJob(network, samples, tuple(places), tuple(ways))
        results = context.progress(pool.map(job, units), "looking at presets", len(units))
        return [row for unit in results for row in unit if row]

    found = more_confident_presets(ways, places, run)
    if not found:
        return
    (_, now, best), *_ = found
    yield (
        f"Input '{one.name}': with preset {one_of([name for way, *_ in found for name in way.names])} the network is "
        f"more confident on {int((best.entropies < now.entropies).sum())} of {now.entropies.size} samples "
        f"({best.confidence:.0%} instead of {now.confidence:.0%}); check mean, scale and channel order (--preprocess)."
    )


def more_confident_presets(
    ways: Sequence[Alternative],
    places: Sequence[int],
    run: Run,
) -> list[tuple[Alternative, PresetScore, PresetScore]]:
    """The preset with which a classifier is most confident, if it is significantly more so, and those that gain, too,
    and are not significantly worse, with the scores without and with them; the largest margins come first. All are run
    on a few samples, those that gain something on the others.
    """
    early = places[:: max(1, len(places) // BUDGETS.alike)]
    columns = [list(column) for column in zip(*run(ways, early), strict=True)]
    now, *others = (score_outputs(column) for column in columns) if columns else (None,)
    if now is None or len(places) < BUDGETS.alike or len(next(iter(columns[0][0].values())).reshape(-1)) < 3:
        return []
    kept = [index for index, other in enumerate(others) if other is not None and now.gain_of(other) > 0]
    if not kept:
        return []
    late = run([ways[index] for index in kept], [place for place in places if place not in set(early)])
    columns = [columns[index] + [row[at] for row in late] for at, index in enumerate((0, *(one + 1 for one in kept)))]
    now, *others = (score_outputs(column) for column in columns)
    if now is None:
        return []
    pairs = [
        (ways[index], other) for index, other in zip(kept, others, strict=True) if other and now.gain_of(other) > 0
    ]
    sure = [other for _, other in pairs if now.gain_of(other) >= CHECKS.surer]
    if not sure:
        return []
    best = max(sure, key=lambda other: other.information)
    close = [(way, now, other) for way, other in pairs if other is best or other.gain_of(best) < CHECKS.surer]
    return sorted(close, key=lambda found: -float(found[2].margins.mean()))
