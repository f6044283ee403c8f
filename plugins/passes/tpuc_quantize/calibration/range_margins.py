"""Headroom above the largest observed outputs: in half of all cases the same number of new samples reaches further."""

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
    """The candidate with thresholds of `outermost` values raised by `MARGINS.output`, unless they already reach that
    far or are bounded. Operands of final sigmoids are not clipped below their largest observed value, times `factor`
    if that is more: clipped scores would tie, so that the best one is arbitrary.
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
    result = dict(result) | {name: _halfway(entries[name]) for name in _normalized(module) & entries.keys()}
    candidate = candidate.through("normalized rows clipped at most halfway", result)
    result = dict(result)
    for name in _logits(module) & entries.keys():
        entry = entries[name]
        limit = min(entry.maximum * max(factor, MARGINS.output), bounds.get(name, math.inf))
        if entry.threshold < limit:
            result[name] = replace(entry, threshold=limit)
    return candidate.through("what final sigmoids take is not cut off", result)


def _normalized(module: Module) -> set[str]:
    """Rows that are normalized: most samples have a few elements far above the others (decision 0045)."""
    return {one.result.name for one in module.main.operations if isinstance(one.op, (top.LayerNorm, top.RMSNorm))}


def _halfway(entry: TensorThreshold) -> TensorThreshold:
    """The entry with a threshold at least halfway, in octaves, to the largest magnitude."""
    return replace(entry, threshold=math.sqrt(entry.threshold * max(entry.threshold, -entry.minimum, entry.maximum)))


def _logits(module: Module) -> set[str]:
    """Operands of final sigmoids, and the values they are assembled from."""
    outputs = {value.name for value in output_parts(module)}
    return {value.name for value in output_parts(module, through=(top.Sigmoid,))} - outputs


def with_whole_scores(candidate: Candidate, module: Module) -> Candidate:
    """The candidate with outputs in [0, 1] (scores) covering the full range, whatever the samples show: other data may
    score higher.
    """
    entries = candidate.entries
    scores = {name: replace(entries[name], threshold=1.0) for name in scores_of(module) & entries.keys()}
    return candidate.through("scores keep all up to 1", {**entries, **scores}, scores)


def scores_of(module: Module) -> set[str]:
    """Outputs, and the values they are assembled from, that never exceed 1."""
    bounds = bounds_of(module)
    return {value.name for value in output_parts(module) if bounds.get(value.name) == 1.0}


def with_headroom(entries: Mapping[str, TensorThreshold], module: Module, factor: float) -> dict[str, TensorThreshold]:
    """The entries scaled by `factor`, which equals every method's result for values so much larger; limited to known
    bounds.
    """
    result, bounds = dict(entries), bounds_of(module)
    for name, entry in entries.items():
        limit = max(bounds.get(name, entry.threshold * factor), entry.threshold)
        result[name] = replace(entry, threshold=min(entry.threshold * factor, limit))
    return result


def outermost(module: Module) -> set[str]:
    """The outputs, the values they are assembled from, and the operand of a final Softmax instead of its result."""
    values = output_parts(module, through=(top.Softmax,))
    return {value.name for value in values if not isinstance(value.defining and value.defining.op, top.Softmax)}
