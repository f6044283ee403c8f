"""Do the samples show what a network looks for?

Detectors reach further inside when they find something, and thresholds from samples without it cut that off. Where an
answer is a score, the samples tell: a Sigmoid that is never above one half, a Softmax that gives the same class (the
background) everywhere. Logits do not tell, their function is not in the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
from tpuc.api import Module, Operation, ShapeOnly
from tpuc.api.host import Array
from tpuc_ops.top.concat import Concat
from tpuc_ops.top.permute import Permute
from tpuc_ops.top.sigmoid import Sigmoid
from tpuc_ops.top.softmax import Softmax

Scores: TypeAlias = Mapping[str, "int | None"]
"""Values that are scores: the axis of classes of those that a Softmax gives, None for a Sigmoid."""

ENOUGH_SAMPLES = 16
RARE = 20
"""What fewer than one sample in so many shows is taken as not shown."""


def scores_of(module: Module) -> Scores:
    """The network's outputs that are scores, or parts of outputs that are only put together from them."""
    found: dict[str, int | None] = {}
    stack = list(reversed(module.main.outputs))
    while stack:
        value = stack.pop()
        maker = value.defining
        if maker is None:
            continue
        if isinstance(maker.op, (Concat, Permute, ShapeOnly)):
            stack += reversed(maker.operands)
        elif isinstance(maker.op, (Sigmoid, Softmax)):
            found[value.name] = _classes(maker)
    return found


def _classes(maker: Operation) -> int | None:
    return maker.op.axis % maker.result.tensor.rank if isinstance(maker.op, Softmax) else None


def wins(array: Array, axis: int | None) -> Array:
    """For one sample: 1 for every class along `axis` that is the most likely one somewhere; of a Sigmoid, one number:
    whether it is above one half anywhere.
    """
    if axis is None:
        return np.array([(array > 0.5).any()], np.int64)
    result = np.zeros(array.shape[axis], np.int64)
    result[array.argmax(axis)] = 1
    return result


def unshown(scores: Scores, won: Mapping[str, Array], count: int) -> Iterable[str]:
    """A sentence per score that says next to nothing on `count` samples; `won` are their `wins`, summed."""
    for name, axis in scores.items() if count >= ENOUGH_SAMPLES else ():
        sums = won[name]
        if axis is None and sums[0] * RARE < count:
            yield f"'{name}' scores above one half in {_few(int(sums[0]), count)}"
        elif axis is not None and (others := int(sums.sum() - sums.max())) * RARE < count:
            yield f"'{name}' gives another class than {int(sums.argmax())} in {_few(others, count)}"


def _few(some: int, count: int) -> str:
    return f"{some or 'none'} of {count} samples"
