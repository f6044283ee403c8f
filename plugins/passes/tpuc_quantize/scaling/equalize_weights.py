"""Cross-layer equalization: give filters of neighboring layers equal ranges per channel."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from tpuc.api import Builder, Module, Pass, PassContext, remove_unused
from tpuc.api.evaluation import Array
from tpuc_ops import elementary, top
from tpuc_optimize.channel_links import Link, find_links, move, reader_ranges, writer_ranges


@dataclass(frozen=True)
class EqualizeWeights(Pass):
    """Where a product feeds products through nothing but relus without limit and pools, divide channel i of the first
    by ``sqrt(r1[i] / r2[i])`` and multiply it back in the others (r: largest filter value, r1 also the bias).

    Repeated until every factor is within `tolerance` of 1, at most `rounds` times: a chain of layers converges linearly
    (Nagel et al. 2019), and 0.01 is 0.09 dB of a range. Exact up to float rounding; calibrate afterwards.
    """

    name = "equalize-weights"
    rounds: int = 20
    tolerance: float = 0.01

    def run(self, module: Module, context: PassContext) -> bool:
        """See Pass."""
        changed = bool(self.equalize(module))
        remove_unused(module)
        return changed

    def equalize(self, module: Module) -> dict[str, Array]:
        """Return the total factors by the name of the op that produces the channels."""
        moved: dict[str, Array] = {}
        links, build = list(find_links(module)), Builder(module, constant=top.Weight())
        for _ in range(self.rounds):
            if self._round(module, links, build, moved) <= 1 + self.tolerance:
                break
        return moved

    def _round(self, module: Module, links: Iterable[Link], build: Builder, moved: dict[str, Array]) -> float:
        """Process all links once; returns the largest deviation of a factor from 1."""
        furthest = 1.0
        for link in links:
            factors = _factors(module, link)
            off = float(elementary.exp(np.abs(elementary.log(factors)).max(initial=0.0)))
            if off > 1 + self.tolerance:
                move(module, link, factors, build)
                moved[link.producer.name] = moved.get(link.producer.name, 1.0) * factors
            furthest = max(furthest, off)
        return furthest


def _factors(module: Module, link: Link) -> Array:
    ours, theirs = writer_ranges(module, link), reader_ranges(module, link)
    usable = (ours > 0) & (theirs > 0)
    factors = np.ones(link.channels)
    factors[usable] = np.sqrt(ours[usable] / theirs[usable])
    return factors
