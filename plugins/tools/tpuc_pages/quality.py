"""Color layers by their SQNR, relative to the other layers of the network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

FLAWLESS_DB = 50.0
"""SQNR from which a layer is always green: an error of 0.3 % of the values."""
POOR_SHARE, FAIR_SHARE = 0.1, 0.3
"""The worst tenth of the layers is red, the next two tenths are yellow."""


@dataclass(frozen=True)
class Limits:
    """SQNR in dB from which layers of one network are yellow and green."""

    fair: float
    good: float

    @staticmethod
    def of(ratios: Iterable[float | None]) -> Limits:
        """Compute the limits from all layers with a value."""
        known = sorted(ratio for ratio in ratios if ratio is not None)
        if not known:
            return Limits(FLAWLESS_DB, FLAWLESS_DB)
        fair, good = (min(known[int(len(known) * share)], FLAWLESS_DB) for share in (POOR_SHARE, FAIR_SHARE))
        return Limits(fair, good)

    def quality(self, ratio: float | None) -> str:
        """Return a layer's class in the style sheet."""
        if ratio is None:
            return "none"
        if ratio >= self.good:
            return "good"
        return "fair" if ratio >= self.fair else "poor"

    def legend(self) -> str:
        """Return the colors with their meaning, as HTML."""
        meanings = (
            ("poor", f"worst {POOR_SHARE:.0%} of layers, below {self.fair:.1f} dB"),
            ("fair", f"next {FAIR_SHARE - POOR_SHARE:.0%}, below {self.good:.1f} dB"),
            ("good", "better"),
            ("none", "not compared"),
        )
        return "".join(f'<span class="key {kind}"></span> {text} ' for kind, text in meanings)
