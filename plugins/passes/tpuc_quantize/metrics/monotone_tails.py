"""Detect logits that are a monotone function of a narrower tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import Elementwise, ShapeOnly
from tpuc.api.evaluation import Array

from tpuc_quantize.simulation.network import FakeNetwork

ROUNDED = float(np.finfo(np.float32).eps)
"""Relative tolerance for a few sums and products in float32, as a part of the largest value."""


@dataclass(frozen=True)
class Rising:
    """Logits are a rising function, element by element, of the value in the slot `source`; `slope` is the slope between
    the largest logits of the samples.
    """

    source: int
    slope: float


def source_of(net: FakeNetwork, slot: int) -> int:
    """The first computed slot of which the value in `slot` is an element-wise function; `slot` itself where there
    is none.
    """
    steps = net.plan.steps
    places = {result: place for place, step in enumerate(steps) for result in step.results}
    found, ahead = slot, {slot}
    while ahead <= places.keys():
        last = steps[max(places[one] for one in ahead)]  # none of the others depends on it
        if not isinstance(last.operation.op, (Elementwise, ShapeOnly)):
            break
        ahead = ahead.difference(last.results) | {one for one in last.operands if one and one not in net.constants}
        if len(ahead) == 1 and ahead <= places.keys():
            (found,) = ahead
    return found


def rising(net: FakeNetwork, slot: int, seen: Mapping[int, Sequence[Array]], reach: float) -> Rising | None:
    """The `Rising` function behind the values in `slot`, some of which are `seen`, with a source that reaches no
    further than `reach`; None where there is none.
    """
    source = source_of(net, slot)
    pairs = [(a.reshape(-1).astype(np.float64), b.reshape(-1)) for a, b in zip(seen[source], seen[slot], strict=True)]
    x, y = (np.concatenate(some) for some in zip(*pairs, strict=True))
    if x.size != y.size or not x.size or np.abs(x).max() > reach:
        return None
    rounded = ROUNDED * float(np.abs(y).max())
    with np.errstate(invalid="ignore"):  # places that a mask hides are infinite, and of two of them nothing rises
        steps = np.diff(y[np.argsort(x, kind="stable")])
    if float(steps.min(initial=0.0)) < -rounded:
        return None
    slope = _slope([(float(a.max()), float(b.max())) for a, b in pairs])
    return Rising(source, slope) if slope > 0 else None


def _slope(best: Sequence[tuple[float, float]]) -> float:
    """The median slope from the largest values of all samples up to the largest of these."""
    top = max(best)
    slopes = [(top[1] - b) / (top[0] - a) for a, b in best if a < top[0]]
    return float(np.median(slopes)) if slopes else 1.0
