"""Proposes thresholds of logits that are no larger than a sigmoid can tell."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search


class SaturatedLogits(Proposer):
    """The first method's table, with logits that reach far clipped where their sigmoid is 0 or 1 (decision 0015)."""

    name = "saturated-logits"

    def propose(self, search: Search) -> Iterator[Candidate]:
        if search.evaluator.measure.enough:
            first, *_ = search.methods
            cut = first.through("logits clipped where they are saturated", search.evaluator.saturated(first.entries))
            yield cut.named(f"{first.name}, logits cut")
