"""Which matrices get 8 bits where weights may have more than 4 on average: those whose errors change states most."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from tpuc_ops.arrays import Array

from tpuc_llm.arithmetic import Arithmetic
from tpuc_llm.family import BlockWeights, Linear
from tpuc_llm.quantization import NARROW, PROJECTIONS, WIDE, Quantizer

Place = tuple[int, str]
"""The number of a block, and one of its products."""
TOKENS = 1024
"""Tokens of the text that errors are measured with."""


@dataclass(frozen=True)
class Loss:
    """What rounding one matrix to few bits does: the error of the block's states as a share of them. `size`: numbers of
    the matrix; `is_open`: False if it keeps more bits anyway.
    """

    place: Place
    share: float
    size: int
    is_open: bool


def losses(
    arithmetic: Arithmetic, quantizer: Quantizer, blocks: Iterable[BlockWeights], states: Array
) -> Iterator[Loss]:
    """Yield what every matrix costs, alone, where floats come into its block."""
    for index, weights in enumerate(blocks):
        exact = arithmetic.block(weights, states)
        energy = float(np.square(exact, dtype=np.float64).sum())
        for name in PROJECTIONS:
            linear: Linear | None = getattr(weights, name)
            if linear is None or linear.integers is not None:
                continue
            own = quantizer.of_projection(name, arithmetic.shape)
            is_open = own.suited(linear.weight.shape[1]).bits == NARROW
            lost = 0.0
            if is_open:
                changed = arithmetic.block(dataclasses.replace(weights, **{name: own.linear(linear)}), states)
                lost = float(np.square(changed - exact, dtype=np.float64).sum())
            yield Loss((index, name), lost / energy, linear.weight.size, is_open)
        states = exact


def wide_places(found: Iterable[Loss], mean: int) -> frozenset[Place]:
    """Return the matrices that get 8 bits, so that all have at most `mean` of them on average: those first that lose
    most for their size.
    """
    every = list(found)
    left = sum(one.size * (mean - (NARROW if one.is_open else WIDE)) for one in every)
    chosen: set[Place] = set()
    for one in sorted(every, key=lambda one: (-one.share / one.size, one.place)):
        more = one.size * (WIDE - NARROW)
        if one.is_open and more <= left:
            chosen.add(one.place)
            left -= more
    return frozenset(chosen)
