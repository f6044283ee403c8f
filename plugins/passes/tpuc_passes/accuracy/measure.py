"""Which values of a network errors are measured in, and in what form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from tpuc.api.host import Array
from tpuc_ops import top

from tpuc_passes.accuracy.companding import compand
from tpuc_passes.accuracy.deciders import SATURATED, Decider, Presence
from tpuc_passes.accuracy.network import FakeNetwork, State
from tpuc_passes.accuracy.outputs import output_slots

HEAVY = 8 * SATURATED
"""Logits that reach so far would be all that squared errors see: they are companded. Others count as they are."""


@dataclass(frozen=True)
class Measure:
    """The slots that errors are measured in. For those of `units`, what a logit of 1 is there, for each element in one
    row, infinity for what is none: these count as `compand` has them.
    """

    slots: tuple[int, ...]
    units: Mapping[int, Array] = field(default_factory=dict[int, Array])

    def values(self, state: State) -> list[Array]:
        """What is measured in a finished state, in rows."""
        found = [(slot, state.values[slot]) for slot in self.slots]
        return [compand(value, self.units.get(slot)) for slot, value in found if value is not None]


def measure_of(net: FakeNetwork, deciders: Sequence[Decider], states: Sequence[State]) -> Measure:
    """Outputs and what they are put together from, by the values that these have in some samples."""
    slots = output_slots(net)
    seen = {slot: [value for one in states if (value := one.values[slot]) is not None] for slot in slots}
    slots = output_slots(net, whole=_heavy_softmaxes(net, seen))
    return Measure(tuple(slots), {slot: one for slot, one in _units(net, deciders, seen).items() if slot in slots})


def _units(net: FakeNetwork, deciders: Sequence[Decider], seen: Mapping[int, Sequence[Array]]) -> dict[int, Array]:
    slots = {name: slot for slot, name in net.plan.names.items()}
    result: dict[int, Array] = {}
    for decider in deciders:
        slot = slots.get(decider.part.source)
        if slot is None or slot not in seen or not isinstance(decider, Presence) or decider.scale is None:
            continue
        places = decider.part.sources.reshape(-1)
        if _largest([one.reshape(-1)[places] for one in seen[slot]]) > HEAVY * decider.scale:
            units = result.setdefault(slot, np.full(seen[slot][0].size, np.inf))
            units[places] = decider.scale
    return result


def _heavy_softmaxes(net: FakeNetwork, seen: Mapping[int, Sequence[Array]]) -> frozenset[int]:
    """The results of those at the end whose operands reach so far: they are measured themselves."""
    found = set[int]()
    for step in net.plan.steps:
        op = step.operation.op
        if isinstance(op, top.Softmax):
            taken = [one for slot in output_slots(net, behind=step.operands) for one in seen.get(slot, ())]
            if _largest(taken) * op.beta > HEAVY:
                found.update(step.results)
    return frozenset(found)


def _largest(arrays: Sequence[Array]) -> float:
    return max((float(np.abs(one).max(initial=0.0)) for one in arrays), default=0.0)
