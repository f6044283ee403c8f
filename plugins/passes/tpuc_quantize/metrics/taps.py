"""Select the values of a network in which errors are measured, and their form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tpuc.api.evaluation import Array
from tpuc_ops import top

from tpuc_quantize.metrics.agreement import Classes, Presence, TaskMetric
from tpuc_quantize.metrics.companding import compand
from tpuc_quantize.metrics.monotone_tails import rising, source_of
from tpuc_quantize.options.tuning import AGREEMENT
from tpuc_quantize.simulation.network import FakeNetwork, State
from tpuc_quantize.simulation.output_slots import output_slots

FARTHEST = 2 * AGREEMENT.saturated
"""Magnitude above which logits are indistinguishable."""
HEAVY = 8 * AGREEMENT.saturated
"""Magnitude above which logits would dominate squared errors and are companded. Others are measured unchanged."""


@dataclass(frozen=True)
class Source:
    """A named value in a slot. `unit` is the value that corresponds to 1 for a Softmax."""

    slot: int
    name: str
    unit: float


@dataclass(frozen=True)
class Measure:
    """The slots in which errors are measured. `units`: the value that corresponds to a logit of 1, per element in one
    row, infinite for other values; these slots are measured through `compand`. `enough`: the magnitude at which
    far-reaching logits saturate, by slot. `is_far`: some logits reach far. `sources`: the tensor measured instead of
    a Softmax's logits, which are a function of it, by the name of the result.
    """

    slots: tuple[int, ...]
    units: Mapping[int, Array] = field(default_factory=dict[int, Array])
    enough: Mapping[int, float] = field(default_factory=dict[int, float])
    is_far: bool = False
    sources: Mapping[str, Source] = field(default_factory=dict[str, "Source"])

    def values(self, state: State) -> list[Array]:
        """The measured values of a final state, in rows."""
        found = [(slot, state.values[slot]) for slot in self.slots]
        return [compand(value, self.units.get(slot)) for slot, value in found if value is not None]

    def outputs(self, net: FakeNetwork, state: State) -> dict[str, Array]:
        """The outputs of a final state, and the sources."""
        found = {one.name: state.values[one.slot] for one in self.sources.values()}
        return {**{name: value for name, value in found.items() if value is not None}, **net.outputs(state)}

    def metric(self, metric: TaskMetric) -> TaskMetric:
        """The measured values, with the source in place of the Softmax result."""
        source, part = self.sources.get(metric.part.name), metric.part
        if source is None or not isinstance(metric, Classes):
            return metric
        part = replace(part, output=source.name, places=part.sources, factor=1.0)
        return replace(metric, part=part, scale=source.unit, is_log=False)


def slots_to_see(net: FakeNetwork) -> list[int]:
    """The slots that `measure_of` needs: outputs, operands of final functions, and the sources of those."""
    behind = [slot for _, _, slots in _functions(net) for slot in slots]
    return sorted({*output_slots(net), *behind, *(source_of(net, slot) for slot in behind)})


def measure_of(net: FakeNetwork, task_metrics: Sequence[TaskMetric], states: Sequence[State]) -> Measure:
    """The measure of a network, from the values of outputs and their parts on some samples."""
    seen = {slot: [value for one in states if (value := one.values[slot]) is not None] for slot in slots_to_see(net)}
    whole, instead, enough, sources = set[int](), dict[int, int](), dict[int, float](), dict[str, Source]()
    for op, results, slots in _functions(net):
        unit = 1.0 / op.beta if isinstance(op, top.Softmax) else 1.0
        if _largest([one for slot in slots for one in seen[slot]]) <= HEAVY * unit:
            continue
        # Of two large logits of a Softmax the difference decides.
        found = rising(net, slots[0], seen, HEAVY * unit) if isinstance(op, top.Softmax) and len(slots) == 1 else None
        if found is not None:
            instead[slots[0]] = found.source
            sources[net.plan.names[results[0]]] = Source(found.source, net.plan.names[found.source], unit / found.slope)
            continue
        whole.update(results)
        enough |= {} if isinstance(op, top.Softmax) else dict.fromkeys(slots, FARTHEST)
    units = _units(net, task_metrics, seen)
    enough |= {slot: FARTHEST * float(one.max()) for slot, one in units.items() if np.isfinite(one).all()}
    measured = tuple(output_slots(net, whole=whole, instead=instead))
    return Measure(measured, units, enough, bool(whole or instead or units), sources)


def _functions(net: FakeNetwork) -> Iterator[tuple[top.Softmax | top.Sigmoid, Sequence[int], list[int]]]:
    """The final sigmoids and Softmax: their results and the slots of their operands."""
    softmaxes = [step for step in net.plan.steps if isinstance(step.operation.op, top.Softmax)]
    ends = output_slots(net, whole=[slot for step in softmaxes for slot in step.results])
    for step in net.plan.steps:
        op = step.operation.op
        if isinstance(op, (top.Softmax, top.Sigmoid)) and step.results[0] in ends:
            yield op, step.results, output_slots(net, behind=step.operands)


def _units(
    net: FakeNetwork, task_metrics: Sequence[TaskMetric], seen: Mapping[int, Sequence[Array]]
) -> dict[int, Array]:
    slots = {name: slot for slot, name in net.plan.names.items()}
    result: dict[int, Array] = {}
    for metric in task_metrics:
        slot = slots.get(metric.part.source)
        if slot is None or slot not in seen or not isinstance(metric, Presence) or metric.scale is None:
            continue
        places = metric.part.sources.reshape(-1)
        if _largest([one.reshape(-1)[places] for one in seen[slot]]) > HEAVY * metric.scale:
            units = result.setdefault(slot, np.full(seen[slot][0].size, np.inf))
            units[places] = metric.scale
    return result


def _largest(arrays: Sequence[Array]) -> float:
    return max((float(np.abs(one).max(initial=0.0)) for one in arrays), default=0.0)
