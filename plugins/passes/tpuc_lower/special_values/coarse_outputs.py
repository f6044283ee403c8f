"""Find outputs whose 8-bit step is coarse, although their last product is cheap in floats."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tpuc.api import Calibrated, Module, Operation, Value
from tpuc_ops.quantized import SometimesBytes
from tpuc_ops.traits import Rearranges, states

from tpuc_lower.lowering.cells import Cells

_STEPS = 127


@dataclass(frozen=True)
class OutputOptions:
    """When the step of an output is coarse, and what floats may cost."""

    logit: float = 0.25
    """Step above which an output is computed in floats: a quarter of a logit changes a probability by at most 6 %."""
    most_moved: float = 0.005
    """Part of the network's elements that the product of such an output may read and write. On cv183x scores with 0.2 %
    of a face detector took 0.9 % more cycles, boxes with 3 % took 15 % more.
    """


OUTPUTS = OutputOptions()


def coarse_outputs(module: Module, cells: Cells, stored: Collection[int]) -> frozenset[Operation]:
    """Cheap last products of outputs with a coarse step whose sums the chip cannot return as floats, and the ops that
    only move their results to the output. Outputs at positions in `stored` stay bytes.
    """
    sizes = {one: one.result.tensor.size for one in module.main.operations if one.operands and one.results}
    limit = OUTPUTS.most_moved * sum(sizes.values())
    found = set[Operation]()
    for place, output in enumerate(module.main.outputs):
        *moves, last = _way(output)
        cell = cells.lowering(last.op, cells.mode)
        if place in stored or not _is_coarse(output) or not isinstance(cell, SometimesBytes):
            continue
        if cell.returns_bytes(last.node()) and sizes[last] + last.operands[0].tensor.size <= limit:
            found |= {*moves, last}
    return frozenset(found)


def _is_coarse(value: Value) -> bool:
    element = value.tensor.element
    return isinstance(element, Calibrated) and element.threshold > OUTPUTS.logit * _STEPS


def _way(value: Value) -> list[Operation]:
    """The ops that only move elements to a value, the last one first, and the one that computes them."""
    way: list[Operation] = []
    while not way or states(way[-1].op, Rearranges):
        producer = (way[-1].operands[0] if way else value).defining
        assert producer is not None
        way.append(producer)
    return way
