"""Propose thresholds far below the largest values, where these matter no more to the outputs than others."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tpuc_quantize.calibration.output_sensitivity import lowest_of
from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.options.tuning import MARGINS
from tpuc_quantize.proposers.output_error import by_outputs
from tpuc_quantize.proposers.unseen_range import for_unseen

NAME = "thresholds by scores, far below the methods'"


class DeepClipping(Proposer):
    """For values with nearly all squared gradients far below the largest magnitude, such as masks and logits of absent
    objects (decision 0009). With and without bias correction, since the means of such values are mostly chance.
    """

    name = "deep-clipping"

    def propose(self, search: Search) -> Iterator[Candidate]:
        unseen = search.settings.headroom > 0
        made = search.cached(for_unseen if unseen else by_outputs)
        deep = _cut(search, made)
        if deep.entries != made.entries:
            yield deep.named(NAME, search.filter_shifts, math.inf if unseen else 0.0)
            if not unseen:
                yield deep.named(f"{NAME}, plain biases")


def _cut(search: Search, made: Candidate) -> Candidate:
    """The candidate with thresholds far below its own where possible, and logits limited to saturation."""
    own, last = made.entries, search.last.entries
    may_be_far = {
        name: one for name, one in search.free.items() if lowest_of(one, last[name]) * MARGINS.far < own[name].threshold
    }
    deep = search.by_outputs(may_be_far, MARGINS.rare, aggressive=True)
    far = {name: deep[name] for name in may_be_far if deep[name].threshold * MARGINS.far < own[name].threshold}
    cut = made.through("clipped far below the largest values", {**own, **far})
    return cut.through("logits clipped where they are saturated", search.evaluator.saturated(cut.entries))
