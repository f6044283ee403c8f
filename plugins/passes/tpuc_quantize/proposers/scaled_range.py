"""Propose a method's thresholds, scaled for values larger than those of the samples."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.calibration.range_margins import with_headroom


class ScaledRange(Proposer):
    """For a method without tuning, where headroom is requested: scaling the values scales every method's thresholds."""

    name = "scaled-range"
    round = "ranges"

    def propose(self, search: Search) -> Iterator[Candidate]:
        factor = search.settings.headroom
        if factor:
            best = search.best
            free = {name: entry for name, entry in best.entries.items() if name not in search.given}
            wide = {**best.entries, **with_headroom(free, search.module, factor)}
            yield best.through(f"for values {factor:g} times as large as the samples'", wide)
