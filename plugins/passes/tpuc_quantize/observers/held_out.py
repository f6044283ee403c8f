"""Choose the held-out samples, which tuning does not see, for the self-check."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tpuc.api import Module, PassContext
from tpuc_driver.api.host import CHECK_SAMPLES, SEEN_SAMPLES, SampleSource, fingerprints

from tpuc_quantize.observers.collector import Outputs
from tpuc_quantize.observers.progress_file import Progress
from tpuc_quantize.options.budgets import BUDGETS, affordable
from tpuc_quantize.options.tuning import CHECKS, COMPARISON

ENOUGH = BUDGETS.least * CHECKS.held_out
"""With fewer samples none are held out: fewer than four would be."""
MOST = COMPARISON.enough
"""At most so many are held out by default: with them metrics of outputs mean something."""
MOST_OUTPUTS = BUDGETS.most_checked
"""Number of held-out samples whose float outputs are kept; others are recomputed."""


@dataclass(frozen=True)
class HeldOut(SampleSource):
    """Samples, and the float network's outputs for some of them."""

    outputs: Mapping[Any, Outputs] = field(default_factory=dict[Any, Outputs], compare=False, repr=False)

    @property
    def known(self) -> list[Outputs]:
        """The known outputs, by sample."""
        return [self.outputs[one] for one in self.samples if one in self.outputs]


def spread(count: int, chosen: int) -> list[int]:
    """That many of `count` places, evenly spread: the centers of equal parts."""
    chosen = min(chosen, count)
    return [int((place + 0.5) * count / chosen) for place in range(chosen)]


def to_check(samples: SampleSource, module: Module) -> tuple[int, ...]:
    """The samples that a self-check uses when none are held out."""
    return tuple(spread(len(samples), affordable(module, BUDGETS.observation, BUDGETS.most_checked)))


def choose_held_out(samples: SampleSource, skipped: Container[int] = (), wanted: int = 0) -> tuple[int, ...]:
    """The places of the samples to hold out, spread over the data, none of them `skipped`. Repeated samples are held
    out with all their places, the first place first. `wanted` samples, at most half of all; 0: the default share.
    """
    places: dict[object, list[int]] = {}
    for place, sample in enumerate(samples.samples):
        if place not in skipped:
            places.setdefault(sample, []).append(place)
    different = list(places.values())
    if len(different) < ENOUGH:
        return ()
    usual = min(len(different) // CHECKS.held_out, MOST)
    count = max(usual, min(len(different) // 2, wanted))
    return tuple(place for index in spread(len(different), count) for place in different[index])


def without(progress: Progress, held_out: Collection[int]) -> Progress:
    """The statistics with these samples marked as skipped; their counts remain."""
    return replace(progress, skipped={**progress.skipped, **dict.fromkeys(held_out, "held out")})


def seen_by_tuning(progress: Progress, held_out: Collection[int]) -> list[str]:
    """The fingerprints of the samples that are not held out."""
    skipped = without(progress, held_out).skipped
    return [one for place, one in enumerate(fingerprints(progress.samples)) if place not in skipped]


def samples_at(progress: Progress, places: Collection[int]) -> HeldOut:
    """The samples at these places, each once."""
    source = progress.samples
    known = {source.samples[place]: outputs for place, outputs in progress.outputs.items()}
    chosen = tuple(dict.fromkeys(source.samples[place] for place in places))
    return HeldOut(source.inputs, chosen, source.registry, known)


def leave_samples(context: PassContext, progress: Progress, held_out: Collection[int], module: Module) -> None:
    """Store the samples for the self-check: held-out ones, or else those of `to_check`."""
    if held_out:
        context.leave(CHECK_SAMPLES, samples_at(progress, held_out))
    else:
        context.leave(SEEN_SAMPLES, samples_at(progress, to_check(progress.samples, module)))
