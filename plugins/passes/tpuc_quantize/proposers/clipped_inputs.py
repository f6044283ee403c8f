"""Propose clipping network inputs in which few values are large."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.options.tuning import MARGINS


class ClippedInputs(Proposer):
    """Inputs keep their largest magnitude (decision 0005) unless outputs are clearly better with less: halfway down to
    the magnitude below which most values lie, and that magnitude.
    """

    name = "clipped-inputs"
    round = "inputs"

    def propose(self, search: Search) -> Iterator[Candidate]:
        best, entries = search.best, search.best.entries
        ends = {name: _end_of_most(search, name) for name in entries if name in search.given}
        ends = {name: end for name, end in ends.items() if 0.0 < end < MARGINS.most * entries[name].threshold}
        for way, where in ((0.5, "halfway to most values"), (1.0, "where most values end")) if ends else ():
            clipped = {
                name: dataclasses.replace(entries[name], threshold=entries[name].threshold ** (1 - way) * end**way)
                for name, end in ends.items()
            }
            best = best.through(f"input clipped {where}", {**entries, **clipped})
            name = f"{best.name.partition(', inputs')[0]}, inputs clipped {where}"
            yield dataclasses.replace(best, name=name, inputs=clipped)


def _end_of_most(search: Search, name: str) -> float:
    """The magnitude that all but few values stay below."""
    seen = search.progress.histograms[name].statistics()
    below = seen.zeros + np.cumsum(seen.counts)
    return seen.absmax * int(np.count_nonzero(below < (1 - MARGINS.few) * below[-1])) / seen.counts.size
