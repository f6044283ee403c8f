"""Propose output thresholds with a margin above the largest observed values."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.calibration.range_margins import with_output_headroom


class OutputMargin(Proposer):
    """Clipping errors of an output are not averaged out by later layers. In half of all cases the same number of other
    samples reaches further (measured with thirteen networks, see `Margins.output`).
    """

    name = "output-margin"
    round = "margins"

    def propose(self, search: Search) -> Iterator[Candidate]:
        yield with_output_headroom(search.best, search.module, search.settings.headroom)
