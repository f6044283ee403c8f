"""Chooses the held-out samples, which tuning does not see, for the self-check."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tpuc.api import Module
from tpuc_driver.api.host import SampleSource

from tpuc_quantize.observers.collector import Outputs
from tpuc_quantize.observers.duration import seconds_of
from tpuc_quantize.observers.progress_file import Progress

ENOUGH = 20
"""Of fewer samples none can be spared."""
PART, MOST, LEAST = 5, 16, 4
"""One sample in so many is held out, but no more and no fewer than these."""
SECONDS = 1.0
"""Samples for the check are no more than one run over takes so long, but at least `LEAST`."""


@dataclass(frozen=True)
class HeldOut(SampleSource):
    """Samples, and the float network's outputs for some of them."""

    outputs: Mapping[Any, Outputs] = field(default_factory=dict[Any, Outputs], compare=False, repr=False)

    @property
    def known(self) -> list[Outputs]:
        """The outputs for those samples whose outputs are known."""
        return [self.outputs[one] for one in self.samples if one in self.outputs]


def affordable(module: Module) -> int:
    """How many samples a check looks at."""
    return min(MOST, max(LEAST, int(SECONDS / seconds_of(module))))


def spread(count: int, chosen: int) -> list[int]:
    """So many of `count` places, evenly, from the middles of the parts."""
    chosen = min(chosen, count)
    return [int((place + 0.5) * count / chosen) for place in range(chosen)]


def choose_held_out(progress: Progress, module: Module) -> tuple[int, ...]:
    """The places of the samples to hold out, spread over the data; a sample that counts several times with all of
    them, the first of its places first.
    """
    places: dict[object, list[int]] = {}
    for place, sample in enumerate(progress.samples.samples):
        if place not in progress.skipped:
            places.setdefault(sample, []).append(place)
    different = list(places.values())
    if len(different) < ENOUGH:
        return ()
    count = min(len(different) // PART, affordable(module))
    return tuple(place for index in spread(len(different), count) for place in different[index])


def without(progress: Progress, held_out: Collection[int]) -> Progress:
    """As if these samples could not be read; what was counted stays."""
    return replace(progress, skipped={**progress.skipped, **dict.fromkeys(held_out, "held out")})


def samples_at(progress: Progress, places: Collection[int]) -> HeldOut:
    """The samples at these places, each once."""
    source = progress.samples
    known = {source.samples[place]: outputs for place, outputs in progress.outputs.items()}
    chosen = tuple(dict.fromkeys(source.samples[place] for place in places))
    return HeldOut(source.inputs, chosen, source.registry, known)
