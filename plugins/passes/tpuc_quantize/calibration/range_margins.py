"""Headroom above the largest outputs that were seen: in half of all cases one of as many others reaches further."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from tpuc.api import Module
from tpuc_ops import top

from tpuc_quantize.calibration.candidate import Candidate
from tpuc_quantize.options.tuning import MARGINS
from tpuc_quantize.ranges.bounds import bounds_of
from tpuc_quantize.simulation.output_slots import output_parts
from tpuc_quantize.tables.table import TensorThreshold


def with_output_headroom(candidate: Candidate, module: Module, factor: float = 0.0) -> Candidate:
    """The candidate, with thresholds of `outermost` values raised by `MARGINS.output`, unless they reach so far above
    what was seen or cannot get there. What final sigmoids take is not cut off below the largest value seen, `factor`
    times that if it is more: scores that are cut off are equal, and the best of them is any.
    """
    entries = candidate.entries
    result, bounds = dict(entries), bounds_of(module)
    for name in outermost(module) & entries.keys():
        entry = entries[name]
        seen = max(-entry.minimum, entry.maximum)
        limit = min(seen * MARGINS.output, max(bounds.get(name, seen * MARGINS.output), seen))
        if 0 < entry.threshold < limit:
            result[name] = replace(entry, threshold=min(entry.threshold * MARGINS.output, limit))
    candidate = candidate.through(f"outputs {MARGINS.output:g} times as large", result)
    result = dict(result)
    for name in _logits(module) & entries.keys():
        entry = entries[name]
        limit = min(entry.maximum * max(factor, MARGINS.output), bounds.get(name, math.inf))
        if entry.threshold < limit:
            result[name] = replace(entry, threshold=limit)
    return candidate.through("what final sigmoids take is not cut off", result)


def _logits(module: Module) -> set[str]:
    """What final sigmoids take, and what that is only put together from."""
    outputs = {value.name for value in output_parts(module)}
    return {value.name for value in output_parts(module, through=(top.Sigmoid,))} - outputs


def with_whole_scores(candidate: Candidate, module: Module) -> Candidate:
    """The candidate, with outputs that reach up to 1 (scores) keeping all of it, whatever the samples show: other data
    scores more.
    """
    entries = candidate.entries
    scores = {name: replace(entries[name], threshold=1.0) for name in scores_of(module) & entries.keys()}
    return candidate.through("scores keep all up to 1", {**entries, **scores}, scores)


def scores_of(module: Module) -> set[str]:
    """The outputs, and what they are only put together from, that are no larger than 1."""
    bounds = bounds_of(module)
    return {value.name for value in output_parts(module) if bounds.get(value.name) == 1.0}


def with_headroom(entries: Mapping[str, TensorThreshold], module: Module, factor: float) -> dict[str, TensorThreshold]:
    """The entries, `factor` times as large, as every method makes them of values so much larger; up to their bounds."""
    result, bounds = dict(entries), bounds_of(module)
    for name, entry in entries.items():
        limit = max(bounds.get(name, entry.threshold * factor), entry.threshold)
        result[name] = replace(entry, threshold=min(entry.threshold * factor, limit))
    return result


def outermost(module: Module) -> set[str]:
    """The outputs, what they are only put together from, and what a final Softmax takes instead of its result."""
    values = output_parts(module, through=(top.Softmax,))
    return {value.name for value in values if not isinstance(value.defining and value.defining.op, top.Softmax)}
