"""Detect preprocessing under which a classifier recognizes nothing, and suggest the preset it was trained with.

A classifier that gets pixels of a wrong scale gives nearly the same answer for every sample, or is confident of
nothing. Two figures of its probabilities show this: the share of the predictions' entropy that the samples explain (0:
all samples look the same, 1: confident and different predictions), and the mean confidence in the best class. Other
presets are tried on few samples. A classifier that recognizes something in spite of a missing mean or of exchanged
channels is less sure than it could be: presets that promise more are compared sample by sample, on more samples. Not
detected are mistakes that do not make a classifier less sure, and those of two classes.
"""

from __future__ import annotations

import math
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
    SampleInput,
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

SAMPLES, KNOWN = 6, 4
"""Number of samples run with every preset; and the number of already evaluated samples that suffices to decide whether
to do so.
"""
FLAT = 0.15
"""Standard deviation of logits over samples below which a network does not tell them apart: 0.3 and more on images of
any scale that seven trained classifiers see something in, below 0.05 on images 255 times too dark.
"""
EXPLAINED = 0.3
"""Explained share below which a classifier is doubtful: seven trained classifiers have 0.50 and more with the right
preset, and 0.00 to 0.29 with most wrong scales. Samples of a single class explain little, too, but no other preset
is better for them.
"""
SURER, MORE = 1.5, 2.0
"""Required ratio of confidence with another preset, or of the explained share at equal confidence."""
SAME = 0.5
"""Share of equal classes above which the other preset differs only in scale."""
WORTH = 0.03
"""Gain of confidence below which a preset is not worth a remark."""
PROMISING = 2
"""Number of presets that are compared on all samples: the ones that gain most on the first."""
ABOUT = 0.05
"""Difference of confidence within which presets are equally good."""
LEAST = 1e-30


Run: TypeAlias = Callable[[Sequence[Alternative], Sequence[int]], Sequence[Sequence[Outputs]]]
"""Outputs of the samples at these places, unchanged and with presets, row by row."""


@dataclass(frozen=True)
class PresetScore:
    """The confidence of a classifier's predictions on some samples."""

    confidence: float
    explained: float
    spread: float
    """Standard deviation of the logits over the samples."""
    classes: tuple[int, ...]
    information: float
    """How many nats a prediction tells."""
    margins: Array
    """Of the best class over the second, in logits, by samples, as entropies and deviations of the logits."""
    entropies: Array
    deviations: Array

    @property
    def is_blind(self) -> bool:
        """True if it hardly distinguishes the samples."""
        return self.spread < FLAT

    @property
    def is_doubtful(self) -> bool:
        """True if the preprocessing may be wrong."""
        return self.is_blind or self.explained < EXPLAINED

    def agrees_with(self, other: PresetScore) -> bool:
        """True if both predict mostly the same classes."""
        same = sum(one == two for one, two in zip(self.classes, other.classes, strict=True))
        return same > SAME * len(self.classes)

    def gain_of(self, other: PresetScore) -> float:
        """How much more confident the other one is: the lower of the mean gains in margin and entropy over their
        standard errors; minus infinity where it tells less or is hardly more confident. Larger inputs alone enlarge the
        logits: where the classes are the same, margins in deviations of the logits have to gain, too.
        """
        if other.information < self.information or other.confidence < self.confidence + WORTH:
            return -math.inf
        gains = [significance(other.margins - self.margins), significance(self.entropies - other.entropies)]
        if self.agrees_with(other):
            gains.append(significance(other.margins / other.deviations - self.margins / self.deviations))
        return min(gains)

    def is_clearly_worse_than(self, other: PresetScore) -> bool:
        """True if the other one is far more confident and predicts other classes."""
        if other.is_doubtful or self.agrees_with(other):
            return False
        explains_more = other.explained >= MORE * self.explained and other.confidence >= self.confidence
        return self.is_blind or explains_more or other.confidence >= SURER * self.confidence


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
    centered = logits - logits.mean(1, keepdims=True)
    return PresetScore(
        float(shares.max(1).mean()),
        (total - own) / total if total > 0 else 0.0,
        float(centered.std(0).mean()),
        tuple(logits.argmax(1).tolist()),
        total - own,
        ranked[:, -1] - ranked[:, -2],
        entropies,
        logits.std(1) + LEAST,
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
        forms = [way.of for way in self.presets]

        def one(place: int) -> list[Outputs]:
            found = reader.find(place).items()  # one input
            return [interpreter.run({name: form(x)}) for name, x in found for form in (np.asarray, *forms)]

        return lambda unit: [one(self.places[index]) for index in unit]


def is_classifier(module: Module) -> bool:
    """True for a network whose only output is one vector of classes."""
    outputs = [type_.dims for type_ in Interpreter(module).outputs.values()]
    return len(outputs) == 1 and math.prod(outputs[0]) == max(outputs[0], default=0)


def better_presets(
    network: PortableModule,
    samples: SampleSource,
    known: Sequence[Outputs],
    ends: tuple[float, float] | None,
    pool: Pool,
    context: PassContext,
) -> Iterable[str]:
    """A sentence where other presets make the network far more confident. `known` are its values for some unchanged
    samples, `ends` the smallest and the largest value of all samples.
    """
    (one,) = samples.inputs
    ways, places = tuple(alternatives(one, context.registry, ends)), tuple(spread(len(samples), SAMPLES))
    if not ways or not len(network.module.weights) or not is_classifier(network.module) or len(places) < SAMPLES:
        return

    def run(ways: Sequence[Alternative], places: Sequence[int] = places) -> list[list[Outputs]]:
        units = units_of(len(places), 1)
        job = PresetJob(network, samples, tuple(places), tuple(ways))
        results = context.progress(pool.map(job, units), "looking at presets", len(units))
        return [row for unit in results for row in unit if row]

    if len(known) < KNOWN:
        known = [row[0] for row in run(())]
    outputs = Interpreter(network.module).output_names
    first = score_outputs([{name: values[name] for name in outputs} for values in known])
    if first is None:
        return
    if not first.is_doubtful:
        yield from _more_confident(one, ways, spread(len(samples), color_samples(network.module, len(samples))), run)
        return
    rows = run(ways)
    now, *others = (score_outputs(column) for column in zip(*rows, strict=True))
    if now is None or not now.is_doubtful:
        return
    pairs = [(way, new) for way, new in zip(ways, others, strict=True) if new and now.is_clearly_worse_than(new)]
    if pairs:
        yield _sentence(one, now, sorted(pairs, key=lambda pair: -pair[1].confidence), len(rows))


def _more_confident(
    one: SampleInput,
    ways: Sequence[Alternative],
    places: Sequence[int],
    run: Run,
) -> Iterable[str]:
    """A sentence where the network is significantly more confident with other presets, sample by sample."""
    found = more_confident_presets(ways, places, run)
    if not found:
        return
    now = found[0][1]
    best = max(other.information for _, _, other in found)
    close = [(way, other) for way, _, other in found if other.information >= best - ABOUT]
    count = int((close[0][1].margins > now.margins).sum())
    yield (
        f"Input '{one.name}': with preset {one_of([name for way, _ in close for name in way.names])} the network is "
        f"more confident on {count} of {now.margins.size} samples ({close[0][1].confidence:.0%} instead of "
        f"{now.confidence:.0%}); check mean, scale and channel order (--preprocess)."
    )


def more_confident_presets(
    ways: Sequence[Alternative],
    places: Sequence[int],
    run: Run,
) -> list[tuple[Alternative, PresetScore, PresetScore]]:
    """The presets with which a classifier is significantly more confident, with the scores without and with them;
    all are run on a few samples, promising ones on the others.
    """
    step = max(1, len(places) // SAMPLES)
    early = places[::step]
    columns = [list(column) for column in zip(*run(ways, early), strict=True)]
    now, *others = (score_outputs(column) for column in columns) if columns else (None,)
    if now is None or len(places) < BUDGETS.least_colors or len(next(iter(columns[0][0].values())).reshape(-1)) < 3:
        return []
    gains = [-math.inf if other is None else now.gain_of(other) for other in others]
    kept = [index for index in sorted(range(len(ways)), key=lambda index: -gains[index]) if gains[index] > 0][
        :PROMISING
    ]
    if not kept:
        return []
    late = run([ways[index] for index in kept], [place for place in places if place not in set(early)])
    columns = [columns[index] + [row[at] for row in late] for at, index in enumerate((0, *(one + 1 for one in kept)))]
    now, *others = (score_outputs(column) for column in columns)
    return [
        (ways[index], now, other)
        for index, other in zip(kept, others, strict=True)
        if now is not None and other is not None and now.gain_of(other) >= CHECKS.surer
    ]


def _sentence(one: SampleInput, now: PresetScore, better: Sequence[tuple[Alternative, PresetScore]], count: int) -> str:
    best = better[0][1].confidence
    names = [name for way, new in better if new.confidence >= best - ABOUT for name in way.names]
    fault = "hardly tells the samples apart" if now.is_blind else "is unsure about the samples"
    return (
        f"Input '{one.name}': the network {fault} ({now.confidence:.0%} confidence on {count} "
        f"samples); with preset {one_of(names)} it is {best:.0%} confident: check the preprocessing (--preprocess)."
    )
