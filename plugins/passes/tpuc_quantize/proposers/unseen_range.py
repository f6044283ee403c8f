"""Propose thresholds with headroom, for samples that do not show what the network looks for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search


class UnseenRange(Proposer):
    """Thresholds by output error for values larger than the samples' by the headroom, raised halfway to all of it and
    not below the method's own (decision 0014 has the measurements): how much large values matter is hardly more than
    chance in samples that lack them.
    """

    name = "unseen-range"

    def propose(self, search: Search) -> Iterator[Candidate]:
        yield search.cached(for_unseen).named(_name(search), search.filter_shifts)


def for_unseen(search: Search) -> Candidate:
    """The last method's table, with headroom."""
    own, headroom = search.last.entries, search.settings.headroom
    wide = dict(own)
    for name, one in search.by_outputs(search.free, headroom).items():
        farthest = headroom * max(-one.minimum, one.maximum)
        raised = math.sqrt(one.threshold * max(one.threshold, farthest)) if name in search.free else 0.0
        wide[name] = replace(one, threshold=max(raised, own[name].threshold))
    return search.last.through(_name(search), wide, search.free)


def _name(search: Search) -> str:
    return f"for values {search.settings.headroom:g} times as large as the samples'"
