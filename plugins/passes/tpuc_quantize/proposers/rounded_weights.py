"""Propose filters rounded by the second moments of their operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.calibration.search import rounds_weights
from tpuc_quantize.options.budgets import BUDGETS
from tpuc_quantize.remedies.weight_rounding import find_rounding
from tpuc_quantize.simulation.network import FakeNetwork


class RoundedWeights(Proposer):
    """Weights rounded one by one, later ones compensating for earlier ones (Frantar and Alistarh, "Optimal Brain
    Compression", 2022; decision 0027), where requested or fast.
    """

    name = "rounded-weights"
    round = "filters"

    def propose(self, search: Search) -> Iterator[Candidate]:
        if rounds_weights(search.module, search.settings):
            found = find_rounding(
                FakeNetwork(search.module), search.samples(search.observable(BUDGETS.rounding)), search.pool
            )
            if found:
                name = f"{len(found)} rounded by what they are multiplied with"
                yield replace(search.best, name=name, rounding=found)
