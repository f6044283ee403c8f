"""Find filters that are integers times a factor, and move the factor to the next filters."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from tpuc.api import Module, drop_unused_weights
from tpuc.api.evaluation import Array, state_factors, stated_factors
from tpuc_optimize.channel_links import constant, find_links, move

from tpuc_prequantized.common import CHIP_BITS


@dataclass(frozen=True)
class IntegerWeightOptions:
    """When filters count as integers times a factor."""

    tolerance: float = 1e-3
    """In steps. Rounding a product of 255 and its factor in float32 leaves 1.5e-5."""


OPTIONS = IntegerWeightOptions()


def make_integer_weights(module: Module) -> None:
    """Make filters integers times a power of two, which bf16 represents exactly."""
    if stated_factors(module):
        return
    changed: dict[str, Array] = {}
    for link in list(find_links(module, with_limits=True)):
        filters = constant(module, link.producer, 1)
        assert filters is not None
        step = _step(filters)
        if step is None:
            continue
        factor = step / 2.0 ** round(math.log2(step))
        factors = np.full(link.channels, factor)
        move(module, link, factors)
        changed |= {one.result.name: link.along(factors) for one in (link.producer, *link.between)}
    if changed:
        state_factors(module, changed)
        drop_unused_weights(module)


def _step(filters: Array) -> float | None:
    """The factor, None where there is none."""
    greatest = float(np.abs(filters).max(initial=0.0))
    if not greatest:
        return None
    for count in range(1, 1 << CHIP_BITS):
        whole = filters.reshape(-1) * (count / greatest)
        if _are_integers(whole[:64]) and _are_integers(whole):  # few show that most counts do not fit
            return greatest / count
    return None


def _are_integers(numbers: Array) -> bool:
    return bool((np.abs(numbers - np.rint(numbers)) < OPTIONS.tolerance).all())
