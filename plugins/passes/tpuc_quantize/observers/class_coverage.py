"""Check whether the samples contain what a network looks for.

The inner values of a detector reach further when it finds something, and thresholds from samples without detections
clip them. Outputs that are scores show this: a Sigmoid that never exceeds one half, or a Softmax that is confident of
the same class (the background) everywhere. Logits without their function in the graph show nothing, and neither do
networks with one output per sample: if all samples have one class, the network may as well be untrained.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from tpuc.api import Module, Operation
from tpuc.api.evaluation import Array
from tpuc_ops import top

from tpuc_quantize.options.tuning import AGREEMENT, CHECKS
from tpuc_quantize.simulation.output_slots import output_parts


@dataclass(frozen=True)
class Score:
    """A score output: the threshold for a detection, and the axis of classes, if any."""

    half: float
    axis: int | None = None


Scores: TypeAlias = Mapping[str, Score]


def scores_of(module: Module) -> Scores:
    """The network outputs that are scores, and score parts of concatenated outputs."""
    producers = [value.defining for value in output_parts(module)]
    return {
        producer.result.name: _score(producer)
        for producer in producers
        if producer and isinstance(producer.op, (top.Sigmoid, top.Softmax)) and _has_places(producer)
    }


def _has_places(producer: Operation) -> bool:
    """True if there are several scores per sample."""
    dims = producer.result.tensor.dims
    classes = dims[producer.op.axis] if isinstance(producer.op, top.Softmax) else 1
    return math.prod(dims) > classes * math.prod(dims[:1])


def _score(producer: Operation) -> Score:
    if isinstance(producer.op, top.Softmax):
        return Score(math.log(0.5) if producer.op.log else 0.5, producer.op.axis % producer.result.tensor.rank)
    return Score(0.5)


def wins(array: Array, score: Score) -> Array:
    """For one sample, 1 for every class that is detected anywhere; a single number without classes."""
    found = array > score.half
    axes = tuple(axis for axis in range(array.ndim) if axis != score.axis)
    return np.atleast_1d(found.any(axes)).astype(np.int64)


def classes_without_samples(scores: Scores, won: Mapping[str, Array], count: int) -> Iterable[str]:
    """A sentence for each score that detects next to nothing in `count` samples; `won` are the summed `wins`."""
    for name, score in scores.items() if count >= CHECKS.few_samples else ():
        most, every = int(won[name].max()), int(won[name].sum())
        if score.axis is None and every / count < AGREEMENT.rare:
            yield f"'{name}' scores above one half in {_few(every, count)}"
        elif score.axis is not None and (every - most) / count < AGREEMENT.rare and count <= 2 * most:
            yield f"'{name}' predicts a class other than {int(won[name].argmax())} in {_few(every - most, count)}"


def _few(some: int, count: int) -> str:
    return f"{some or 'none'} of {count} samples"
