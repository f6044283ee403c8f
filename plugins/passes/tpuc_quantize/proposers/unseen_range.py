"""Propose thresholds with headroom, for samples that do not show what the network looks for."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search


class UnseenRange(Proposer):
    """Thresholds by output error for values larger than the samples' by the headroom, none below the method's own
    (decision 0014 has the measurements).
    """

    name = "unseen-range"

    def propose(self, search: Search) -> Iterator[Candidate]:
        yield search.cached(for_unseen).named(_name(search), search.filter_shifts)


def for_unseen(search: Search) -> Candidate:
    """The last method's table, with headroom."""
    own, found = search.last.entries, search.by_outputs(search.free, search.settings.headroom)
    wide = {name: one if one.threshold >= own[name].threshold else own[name] for name, one in found.items()}
    return search.last.through(_name(search), wide, search.free)


def _name(search: Search) -> str:
    return f"for values {search.settings.headroom:g} times as large as the samples'"
