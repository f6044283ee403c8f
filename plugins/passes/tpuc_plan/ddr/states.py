"""States between runs, kept in constant memory: it is loaded once, and no activation lies there."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

import numpy as np
from tpuc.api import Assembler, DdrTensor, Module, NetworkInput, ScalarType, Unsupported, Value, numpy_dtype
from tpuc.api.boundary import first_value, states_of
from tpuc_ops.arrays import Array

from tpuc_plan.ddr.lifetimes import address_of
from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.aliases import AliasSets

_ROW_BYTES = 4096
"""Length of the rows in which states are copied; chips limit the extents of a copy."""


def state_values(module: Module) -> list[tuple[Value, Value]]:
    """Return the input and the output of each state."""
    inputs = {one.name: one.result for one in module.main.operations if isinstance(one.op, NetworkInput)}
    outputs = {value.name: value for value in module.main.outputs}
    return [(inputs[state.input], outputs[state.output]) for state in states_of(module)]


def place_states(module: Module, aliases: AliasSets, start: int, alignment: int) -> tuple[dict[Value, int], int]:
    """Return the addresses of the inputs from `start` on, and the end."""
    addresses: dict[Value, int] = {}
    for taken, _ in state_values(module):
        addresses[aliases.place(taken)[0]] = start
        start = align(start + taken.tensor.size_bytes, alignment)
    return addresses, start


def record_states(module: Module, asm: Assembler) -> None:
    """Record the copies of every state's output to its input, behind all other instructions.

    Where an output lies in another state's input, as in a delay line, it is copied before that input is overwritten.
    Raises Unsupported for states that exchange their values.
    """
    for source, target, size in _ordered(module):
        whole = size // _ROW_BYTES
        if whole:
            asm.move(*(_rows(address, whole, _ROW_BYTES) for address in (target, source)))
        if size % _ROW_BYTES:
            at = whole * _ROW_BYTES
            asm.move(*(_rows(address + at, 1, size % _ROW_BYTES) for address in (target, source)))


def _ordered(module: Module) -> Iterator[tuple[int, int, int]]:
    """Yield source, target and size of each copy, in an order in which none reads what another has overwritten."""
    pairs = state_values(module)
    copies = [(address_of(given), address_of(taken), taken.tensor.size_bytes) for taken, given in pairs]
    readers: dict[int, set[int]] = {}
    for index, (_, target, size) in enumerate(copies):
        readers[index] = {
            other
            for other, (source, _, length) in enumerate(copies)
            if other != index and source < target + size and target < source + length
        }
    try:
        order = tuple(TopologicalSorter(readers).static_order())
    except CycleError as error:
        members: list[int] = error.args[1]
        names = ", ".join(f"'{pairs[index][0].name}'" for index in sorted(set(members)))
        raise Unsupported(
            f"{module.name}: states {names} exchange their values, and the file copies one after another; leave out "
            "--state internal"
        ) from error
    for index in order:
        source, target, _ = copies[index]
        if source != target:
            yield copies[index]


def write_first_values(module: Module, image: Array, base: int) -> None:
    """Write what every state is before the first run into the image of the constant memory."""
    for taken, _ in state_values(module):
        first = np.full(taken.tensor.size, first_value(taken.tensor), numpy_dtype(taken.tensor.storage))
        start = address_of(taken) - base
        image[start : start + first.nbytes] = np.frombuffer(first.tobytes(), np.uint8)


def visible_ends(module: Module) -> tuple[list[Value], list[Value]]:
    """Return the inputs and the outputs that programs see; an input may also be an output."""
    kept = {value for pair in state_values(module) for value in pair}
    inputs = [one.result for one in module.main.operations if isinstance(one.op, NetworkInput)]
    return [one for one in inputs if one not in kept], [one for one in module.main.outputs if one not in kept]


def _rows(address: int, count: int, width: int) -> DdrTensor:
    return DdrTensor(address, (1, 1, count, width), (count * width, count * width, width, 1), ScalarType("i8"))
