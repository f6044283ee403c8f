"""Cross-layer equalisation: filters of neighbouring layers get equal ranges per channel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from tpuc.api import Module, Pass, PassContext, drop_unused_weights, remove_dead

from tpuc_passes.accuracy.rescale import find_links, move, reader_ranges, writer_ranges


@dataclass(frozen=True)
class EqualiseWeights(Pass):
    """Where a product feeds products through nothing but relus without limit and pools, channel i of the first is
    divided by ``sqrt(r1[i] / r2[i])`` and multiplied back in the others (r: largest filter value, r1 also the bias).
    Repeated until no factor is further than `tolerance` from 1, at most `rounds` times. Exact up to float rounding;
    calibrate afterwards.
    """

    name = "equalise-weights"
    rounds: int = 20
    tolerance: float = 0.01

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        changed = False
        for _ in range(self.rounds):
            furthest = 1.0
            for link in list(find_links(module)):
                ours, theirs = writer_ranges(module, link), reader_ranges(module, link)
                usable = (ours > 0) & (theirs > 0)
                factors = np.ones(link.channels)
                factors[usable] = np.sqrt(ours[usable] / theirs[usable])
                off = float(np.exp(np.abs(np.log(factors)).max(initial=0.0)))
                if off > 1 + self.tolerance:
                    move(module, link, factors)
                    changed = True
                furthest = max(furthest, off)
            if furthest <= 1 + self.tolerance:
                break
        remove_dead(module)
        drop_unused_weights(module)
        return changed
