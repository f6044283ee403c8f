"""Propose thresholds with the least effect of rounding and clipping errors on the outputs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Entries, Proposer, Search
from tpuc_quantize.remedies.channel_thresholds import UNSEEN


class OutputError(Proposer):
    """Errors weighted by squared gradients of the outputs (Dong et al., "HAWQ-V2", 2020, with the Fisher information as
    Hessian), and the geometric mean with thresholds from the per-op search: two estimates with independent errors
    are better combined.
    """

    name = "output-error"

    def propose(self, search: Search) -> Iterator[Candidate]:
        yield search.cached(by_outputs).named("thresholds by outputs", search.filter_shifts)


def by_outputs(search: Search) -> Candidate:
    """The last method's table after this tuning."""
    made = search.last.through("tuned by output error", search.by_outputs(search.free, UNSEEN), search.free)
    mean = _between(made.entries, search.tuned_per_op[-1].entries)
    return made.through("geometric mean with those tuned op by op", mean, search.free)


def _between(one: Entries, other: Entries) -> Entries:
    return {
        name: dataclasses.replace(entry, threshold=math.sqrt(entry.threshold * other[name].threshold))
        for name, entry in one.items()
    }
