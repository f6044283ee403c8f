"""Finds filters that are integers times a factor, and moves the factor to the next filters."""

from __future__ import annotations

import math

import numpy as np
from tpuc.api import Module, drop_unused_weights
from tpuc.api.evaluation import Array, state_factors, stated_factors

from tpuc_quantize.scaling.links import constant, find_links, move

_MOST = 255
"""Magnitude of the whole numbers."""
_NEAR = 1e-3
"""How far from a whole number rounding in float32 leaves one."""


def make_integer_weights(module: Module) -> None:
    """Let filters be whole numbers times a power of two, which floats of eight bits hold exactly."""
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
    for count in range(1, _MOST + 1):
        whole = filters.reshape(-1) * (count / greatest)
        if (np.abs(whole[:64] - np.rint(whole[:64])) < _NEAR).all() and (np.abs(whole - np.rint(whole)) < _NEAR).all():
            return greatest / count
    return None
