"""Propose filters of neighboring layers with equal ranges per channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.scaling.equalize_weights import EqualizeWeights


class CrossLayerEqualization(Proposer):
    """Channels that use little of their filters' range are scaled up, and the next layer scales back (Nagel et al.,
    "Data-free quantization", 2019). Record 0026 explains why outputs must be clearly better.
    """

    name = "cross-layer-equalization"
    round = "network"

    def propose(self, search: Search) -> Iterator[Candidate]:
        factors = EqualizeWeights().equalize(search.module.clone())
        if factors:
            yield replace(search.best, name=f"filters equalized, by factors of {len(factors)} values", factors=factors)
