"""A proposer: one more calibration table that takes part in every calibration with tuning."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search


class MeanOfMethods(Proposer):
    """The geometric means of the methods' thresholds: estimates with errors of their own are better together."""

    name = "mean-of-methods"

    def propose(self, search: Search) -> Iterator[Candidate]:
        first, *others = search.methods
        if others:
            entries = {
                name: replace(entry, threshold=_mean([one.entries[name].threshold for one in search.methods]))
                for name, entry in first.entries.items()
            }
            made = first.through("geometric mean of the methods", entries)
            yield made.named("mean of the methods", search.filter_shifts)


def _mean(thresholds: list[float]) -> float:
    return math.exp(sum(map(math.log, thresholds)) / len(thresholds))
