"""How sure a share of samples is: confidence intervals of proportions.

Wilson's score interval (E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal
of the American Statistical Association 22, 1927): for `same` of `count` independent trials and the normal quantile z,

    center = (same + z^2 / 2) / (count + z^2)
    half   = z / (count + z^2) * sqrt(same * (count - same) / count + z^2 / 4)
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

CONFIDENCE = 0.95
"""The confidence level of all intervals."""
_NEAR = 1e-9
"""Distance from a whole number that is rounding."""


class Interval(NamedTuple):
    """The confidence interval of a share, both ends from 0 to 1."""

    low: float
    high: float

    def text(self) -> str:
        """The interval as text."""
        return f"{CONFIDENCE:.0%} interval {self.low:.1%} to {self.high:.1%}"


def share_interval(share: float, count: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's interval of a share of `count` independent samples; the whole range for no samples."""
    if count <= 0:
        return Interval(0.0, 1.0)
    z = _quantile(confidence)
    center = (share * count + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * math.sqrt(share * (1 - share) * count + z * z / 4)
    return Interval(max(center - half, 0.0), min(center + half, 1.0))


def whole_interval(share: float, count: int) -> Interval:
    """The interval of an expected share: from the lower end for the whole number of samples below it to the upper end
    for the one above.
    """
    below, above = math.floor(share * count + _NEAR), math.ceil(share * count - _NEAR)
    return Interval(share_interval(below / count, count).low, share_interval(above / count, count).high)


def samples_needed(share: float, confidence: float = CONFIDENCE) -> int | None:
    """The smallest number of samples, all of them right, with the share as the lower end of its interval.

    None for a share of 1, which no number of samples shows.
    """
    if share >= 1:
        return None
    z = _quantile(confidence)
    return max(math.ceil(z * z * share / (1 - share) - 1e-9), 1)


def _quantile(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)
