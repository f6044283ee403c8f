"""Proposes filters of neighboring layers with equal ranges per channel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tpuc_quantize.calibration.proposer import Candidate, Proposer, Search
from tpuc_quantize.scaling.equalize_weights import EqualiseWeights


class CrossLayerEqualization(Proposer):
    """Channels that have little of the range of their filters get more of it, and the next layer takes it back (Nagel
    et al., "Data-free quantization", 2019). Record 0026 says why outputs have to be clearly better for it.
    """

    name = "cross-layer-equalization"
    round = "network"

    def propose(self, search: Search) -> Iterator[Candidate]:
        factors = EqualiseWeights().equalize(search.module.clone())
        if factors:
            yield replace(search.best, name=f"filters equalised, by factors of {len(factors)} values", factors=factors)
