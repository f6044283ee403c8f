"""Recognize output heads by the functions at a network's end and by their values."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from tpuc.api import Module
from tpuc.api.evaluation import Array
from tpuc_driver.api.host import inputs_of
from tpuc_ops import top

from tpuc_quantize.metrics.agreement import Classes, Labels, Numbers, Outputs, Presence, Scored, TaskMetric
from tpuc_quantize.metrics.output_groups import Part, parts_of
from tpuc_quantize.options.tuning import AGREEMENT

_Layout: TypeAlias = tuple[int | None, tuple[int, ...]]


def task_metrics_of(module: Module, outputs: Sequence[Outputs]) -> tuple[TaskMetric, ...]:
    """The task metric of each part of the outputs of a TOP module, given its float outputs for some samples.

    Final Sigmoids and Softmax identify themselves. Without them, a single row per sample is one of classes, unless it
    has the input's size; values far below zero nearly everywhere, with their largest near or above it, are presence
    logits. Everything else is numbers, weighted by the scores of their places; where such scores exist in the part or
    the whole output, no channels of the numbers are taken for logits.
    """
    shapes = {value.name: value.tensor.dims for value in module.main.outputs}
    inputs = {math.prod(one.shape) for one in inputs_of(module)}
    by_part = [(part, [*_recognized(part, outputs, inputs)]) for part in parts_of(module)]
    whole = [one for part, some in by_part for one in some if one.part is part and isinstance(one, (Presence, Classes))]
    found = [one for part, some in by_part for one in _without_doubles(part, some, whole, shapes[part.output])]
    scores = [one for one in found if isinstance(one, (Presence, Classes))]
    return tuple(_scored(one, scores, shapes[one.part.output]) if isinstance(one, Numbers) else one for one in found)


def _recognized(part: Part, outputs: Sequence[Outputs], inputs: set[int]) -> Iterator[TaskMetric]:
    seen = np.stack([part.of(one) for one in outputs])
    op = part.producer.op
    if seen.dtype.kind != "f":
        yield Labels(part)
    elif isinstance(op, top.HardSigmoid) or (isinstance(op, top.Sigmoid) and (op.scale, op.bias) == (1.0, 0.0)):
        yield Presence(part, is_log=isinstance(op, top.Sigmoid) and op.log)
    elif isinstance(op, top.Softmax):
        axis = op.axis % len(part.shape)
        yield Classes(part, axis, is_log=op.log, background=_background(seen, axis))
    elif isinstance(op, (top.LayerNorm, top.RMSNorm, top.Normalize, top.Tanh)):
        # Features of an encoder, whose sizes have just been made alike: no logits, however far below zero they lie.
        yield Numbers(part, _channel_axis(part))
    elif (row := _row_axis(part)) is not None:
        is_copy = part.places.size in inputs
        yield Numbers(part, row) if is_copy else Classes(part, row, _row_scale(seen, row))
    else:
        yield from _by_values(part, seen.astype(np.float64))


def _without_doubles(
    part: Part, found: list[TaskMetric], scores: Sequence[Presence | Classes], output: tuple[int, ...]
) -> list[TaskMetric]:
    """Replace several task metrics by numbers where other parts hold the scores of the same places, or of the whole
    output.
    """
    if len(found) < 2:
        return found
    numbers = _scored(Numbers(part, _channel_axis(part)), scores, output)
    return [numbers] if numbers.scores or _scores_at(output, scores) is not None else found


def _background(seen: Array, axis: int) -> int | None:
    """The class of most places; None where a sample has one place."""
    best = seen.argmax(axis + 1).reshape(-1)
    return None if best.size == len(seen) * seen.shape[1] else int(np.bincount(best).argmax())


def _row_axis(part: Part) -> int | None:
    """The axis of classes if all other extents are 1; `[n, many, 1]` is a column of places."""
    longer = [axis for axis, size in enumerate(part.shape) if size > 1 and axis > 0]
    last = len(part.shape) - 1
    return longer[0] if len(longer) == 1 and (longer[0] == last or last == 3) else None


def _row_scale(seen: Array, axis: int) -> float:
    """The scale of logits that gives them the margins of trained networks."""
    ordered = np.sort(seen.astype(np.float64), axis + 1)
    best, second = (ordered.take(place, axis + 1) for place in (-1, -2))
    margin = float(np.median(best - second))
    return margin / AGREEMENT.typical_margin if margin > 0 else 1.0


def _by_values(part: Part, seen: Array) -> Iterator[TaskMetric]:
    """The task metrics of places with numbers, where some channels may be logits."""
    if _says_presence(seen):
        yield Presence(part, _scale(seen))
        return
    axis = _channel_axis(part)
    channels = np.moveaxis(seen, axis + 1, 0)
    is_presence = np.array([_says_presence(one) for one in channels])
    for chosen in (is_presence, ~is_presence):
        if not chosen.any():
            continue
        some = part if chosen.all() else part.some(axis, chosen)
        if chosen is is_presence:
            yield Presence(some, _scale(channels[chosen]))
        else:
            yield Numbers(some, axis)


def _channel_axis(part: Part) -> int:
    """Images have their channels first; lists of boxes have their numbers last."""
    return 1 if len(part.shape) == 4 else len(part.shape) - 1


def _says_presence(values: Array) -> bool:
    """True for values far below zero nearly everywhere but not everywhere; lengths that are all negative do not get
    near zero.
    """
    middle, largest = float(np.median(values)), float(values.max())
    return middle < 0 and largest > middle / 2 and float((values > 0).mean()) <= AGREEMENT.rare


def _scale(values: Array) -> float:
    """The scale of a logit of 1: 1 unless all predictions would be unsure, or those above zero far too sure."""
    largest, above = float(np.abs(values).max()), max(float(values.max()), 0.0)
    return largest / AGREEMENT.saturated if largest < AGREEMENT.saturated else max(above / AGREEMENT.saturated, 1.0)


def _scored(numbers: Numbers, scores: Sequence[Presence | Classes], output: tuple[int, ...]) -> Numbers:
    """The numbers with the scores of the same places, or those of the whole output, if any."""
    found = _scores_at(numbers.part.shape, scores) or _scores_within(numbers.part, output, scores)
    return numbers if found is None else dataclasses.replace(numbers, axis=found[0], scores=found[1])


def _scores_within(
    part: Part, output: tuple[int, ...], scores: Sequence[Presence | Classes]
) -> tuple[int, tuple[Scored, ...]] | None:
    """Like `_scores_at`, for scores of all places of the output that contains the part."""
    whole = _scores_at(output, scores)
    if whole is None:
        return None
    axis, found = whole
    coordinates = [*np.unravel_index(part.places, output)]
    del coordinates[axis]
    places = np.ravel_multi_index(tuple(coordinates), (*output[:axis], *output[axis + 1 :]))
    same = [own for own in range(1, places.ndim) if (places == places.take([0], own)).all()]
    if not same:
        return None
    own = max(same, key=lambda one: part.shape[one])
    chosen = places.take(0, own).reshape(-1)
    return own, tuple(dataclasses.replace(one, chosen=chosen) for one in found)


def _scores_at(shape: tuple[int, ...], scores: Sequence[Presence | Classes]) -> tuple[int, tuple[Scored, ...]] | None:
    """The axis of the numbers of places with scores, and the scores."""
    for axis, places in _layouts(shape):
        if axis is None or math.prod(places) < 2:
            continue
        found = [scored for one in scores if (scored := _at(one, places)) is not None]
        if found:
            return axis, tuple(found)
    return None


def _at(metric: Presence | Classes, places: tuple[int, ...]) -> Scored | None:
    """The scores of these places."""
    shape = metric.part.shape
    if isinstance(metric, Classes):
        left = _without_ones((*shape[: metric.axis], *shape[metric.axis + 1 :]))
        return Scored(metric, None) if left == places else None
    return next((Scored(metric, axis) for axis, left in _layouts(shape) if left == places), None)


def _layouts(shape: tuple[int, ...]) -> Iterator[_Layout]:
    """Possible axes of a place's numbers or classes, and the remaining places."""
    yield None, _without_ones(shape)
    for axis in dict.fromkeys((len(shape) - 1, 1)):
        if 0 < axis < len(shape):
            yield axis, _without_ones((*shape[:axis], *shape[axis + 1 :]))


def _without_ones(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size > 1)
