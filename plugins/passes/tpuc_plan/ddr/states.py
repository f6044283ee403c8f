"""States between runs, kept in constant memory: it is loaded once, and no activation lies there.

A chip whose commands cannot write to constants keeps them beside the file's inputs and outputs, where nobody puts first
values: an input of the file, `ChipDescription.reset_input`, says whether a run reads them or the first values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

import numpy as np
from tpuc.api import (
    Assembler,
    ChipDescription,
    DdrTensor,
    IntegerAttr,
    Module,
    NetworkInput,
    ScalarType,
    TensorInfo,
    Unsupported,
    Value,
    numpy_dtype,
)
from tpuc.api.boundary import first_value, states_of
from tpuc_ops.arrays import Array

from tpuc_plan.ddr.lifetimes import address_of
from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.aliases import AliasSets

_ROW_BYTES = 4096
"""Length of the rows in which states are copied; chips limit the extents of a copy."""


RESET_ADDRESS = "module.reset_addr"
"""Address of the number that tells the first run; kept states follow, each with as many bytes of first values."""


def resets(module: Module, description: ChipDescription) -> bool:
    """True if a module has states that the chip does not keep in constants."""
    return bool(description.reset_input and states_of(module))


def state_values(module: Module) -> list[tuple[Value, Value]]:
    """Return the input and the output of each state."""
    inputs = {one.name: one.result for one in module.main.operations if isinstance(one.op, NetworkInput)}
    outputs = {value.name: value for value in module.main.outputs}
    return [(inputs[state.input], outputs[state.output]) for state in states_of(module)]


def place_states(
    module: Module, aliases: AliasSets, start: int, description: ChipDescription
) -> tuple[dict[Value, int], int]:
    """Return the addresses of the states in constants from `start` on, and the end."""
    addresses: dict[Value, int] = {}
    if resets(module, description):
        return addresses, start
    for taken, _ in state_values(module):
        addresses[aliases.place(taken)[0]] = start
        start = align(start + taken.tensor.size_bytes, description.ddr_alignment)
    return addresses, start


def place_kept(module: Module, start: int, description: ChipDescription) -> int:
    """Place the states outside the constants, from `start` on, with the number that resets them; return the end."""
    if not resets(module, description):
        return start
    module.attributes[RESET_ADDRESS] = IntegerAttr(start)
    return max(end for *_, end in _kept(module, description.ddr_alignment))


def reset_input(module: Module, description: ChipDescription) -> tuple[TensorInfo, ...]:
    """Return the input of the compiled file that resets states, if it has one."""
    address = module.attributes.get(RESET_ADDRESS)
    if not isinstance(address, IntegerAttr):
        return ()
    return (TensorInfo(description.reset_input, (1,), ScalarType("i32"), address.value),)


def record_first(module: Module, asm: Assembler, description: ChipDescription) -> None:
    """Record the copies of what was kept, or of first values, to every state's input, before all other instructions."""
    (reset,) = reset_input(module, description) or (None,)
    if reset is None:
        return
    index = DdrTensor(reset.address, (1, 1, 1, 1), (1, 1, 1, 1), ScalarType("i32"))
    for taken, _, kept, first, _ in _kept(module, description.ddr_alignment):
        type_, size = taken.tensor, taken.tensor.size_bytes
        whole = DdrTensor(first, (1, 1, 1, type_.size), (type_.size, type_.size, type_.size, 1), type_.storage)
        asm.fill(whole, first_value(type_))
        for at, count, width in _parts(size):
            source = DdrTensor(kept + at, (1, count, 2, width), (0, width, first - kept, 1), ScalarType("i8"))
            target = DdrTensor(address_of(taken) + at, (1, count, 1, width), (0, width, width, 1), ScalarType("i8"))
            spread = replace(index, shape=(1, count, 1, 1), strides=(0, 0, 1, 1))
            asm.move_rows(target, source, spread, False)


def _kept(module: Module, alignment: int) -> Iterator[tuple[Value, Value, int, int, int]]:
    """Yield input and output of each state with the addresses of what is kept and of its first values, and the end."""
    address = module.attributes[RESET_ADDRESS]
    assert isinstance(address, IntegerAttr)
    at = address.value + alignment
    for taken, given in state_values(module):
        size = align(taken.tensor.size_bytes, alignment)
        yield taken, given, at, at + size, at + 2 * size
        at += 2 * size


def record_states(module: Module, asm: Assembler, description: ChipDescription) -> None:
    """Record the copies of every state's output to where it is kept, behind all other instructions.

    Where an output lies in another state's input, as in a delay line, it is copied before that input is overwritten.
    Raises Unsupported for states that exchange their values in constants.
    """
    if resets(module, description):
        pairs = _kept(module, description.ddr_alignment)
        copies = ((address_of(given), kept, taken.tensor.size_bytes) for taken, given, kept, _, _ in pairs)
    else:
        copies = _ordered(module)
    for source, target, size in copies:
        for at, count, width in _parts(size):
            asm.move(*(_rows(address + at, count, width) for address in (target, source)))


def _parts(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start, number, and length of rows of equal length."""
    whole, rest = divmod(size, _ROW_BYTES)
    if whole:
        yield 0, whole, _ROW_BYTES
    if rest:
        yield whole * _ROW_BYTES, 1, rest


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
    """Write what every state in constants is before the first run into the image of the constant memory."""
    if RESET_ADDRESS in module.attributes:
        return
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
