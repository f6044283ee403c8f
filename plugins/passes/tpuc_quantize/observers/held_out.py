"""Choose the held-out samples, which tuning does not see, for the self-check."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tpuc.api import Module, PassContext
from tpuc_driver.api.host import CHECK_SAMPLES, SEEN_SAMPLES, SampleSource

from tpuc_quantize.observers.collector import Outputs
from tpuc_quantize.observers.progress_file import Progress, by_content
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

    @property
    def others(self) -> list[Outputs]:
        """The known outputs of other samples."""
        held_out = set(self.samples)
        return [found for one, found in self.outputs.items() if one not in held_out]


def spread(count: int, chosen: int) -> list[int]:
    """That many of `count` places, evenly spread: the centers of equal parts."""
    chosen = min(chosen, count)
    return [int((place + 0.5) * count / chosen) for place in range(chosen)]


def to_check(samples: SampleSource, module: Module) -> tuple[int, ...]:
    """The samples that a self-check uses when none are held out."""
    return tuple(spread(len(samples), affordable(module, BUDGETS.observation, BUDGETS.most_checked)))


def choose_held_out(keys: Sequence[str], skipped: Container[int] = (), wanted: int = 0) -> tuple[int, ...]:
    """The places of the samples to hold out, by fingerprints, none of them `skipped`. Repeated samples are held out
    with all their places. `wanted` samples, at most half of all; 0: the default share.
    """
    places: dict[str, list[int]] = {}
    for place in by_content(keys, skipped):
        places.setdefault(keys[place], []).append(place)
    different = list(places.values())
    if len(different) < ENOUGH:
        return ()
    usual = min(len(different) // CHECKS.held_out, MOST)
    count = max(usual, min(len(different) // 2, wanted))
    return tuple(place for same in different[len(different) - count :] for place in same)


def without(progress: Progress, held_out: Collection[int]) -> Progress:
    """The statistics with these samples marked as skipped; their counts remain."""
    return replace(progress, skipped={**progress.skipped, **dict.fromkeys(held_out, "held out")})


def seen_by_tuning(progress: Progress, held_out: Collection[int]) -> list[str]:
    """The fingerprints of the samples that are not held out."""
    return sorted(progress.keys[place] for place in without(progress, held_out).usable)


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
