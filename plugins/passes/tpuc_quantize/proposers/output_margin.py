"""Proposes thresholds of outputs with a margin above the largest that were seen."""

from __future__ import annotations

from collections.abc import Iterator

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.calibration.range_margins import with_output_headroom


class OutputMargin(Proposer):
    """What is clipped off an output is lost: nothing averages it out. In half of all cases one of as many other samples
    reaches further (measured with thirteen networks, see `OUTPUT_HEADROOM`).
    """

    name = "output-margin"
    round = "margins"

    def propose(self, search: Search) -> Iterator[Candidate]:
        yield with_output_headroom(search.best, search.module, search.settings.headroom)
