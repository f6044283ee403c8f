"""State that outlives a run, such as the cache of a decoder: an output that is an input of the next run.

A module stores the pairs in the attribute `module.states`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.ir.attributes import ArrayAttr, StringAttr
from tpuc.ir.traits import NetworkInput

if TYPE_CHECKING:
    from tpuc.ir import Module

_STATES = "module.states"


@dataclass(frozen=True)
class State:
    """The next run reads the value `output` of this run as `input`; the first run reads zeros. Both are names of values
    of one type.
    """

    input: str
    output: str


def states_of(module: Module) -> tuple[State, ...]:
    """The states of a module; empty where it has none."""
    stated = module.attributes.get(_STATES)
    items = stated.items if isinstance(stated, ArrayAttr) else ()
    names = [item.value for item in items if isinstance(item, StringAttr)]
    return tuple(State(*pair) for pair in zip(names[::2], names[1::2], strict=True))


def keep_states(module: Module, states: Sequence[State]) -> None:
    """Record the states of a module; raises ValueError for names and types that do not fit."""
    inputs = {one.result.name: one.result.type for one in module.main.operations if isinstance(one.op, NetworkInput)}
    outputs = {value.name: value.type for value in module.main.outputs}
    for state in states:
        if state.input not in inputs or state.output not in outputs:
            raise ValueError(f"no state from output '{state.output}' to input '{state.input}': there are not both")
        if inputs[state.input] != outputs[state.output]:
            raise ValueError(
                f"input '{state.input}' is {inputs[state.input]} and output '{state.output}' is "
                f"{outputs[state.output]}; a state has one type"
            )
    for names in ([state.input for state in states], [state.output for state in states]):
        if len(set(names)) < len(names):
            raise ValueError(f"a value is in two states: {', '.join(names)}")
    pairs = [name for state in states for name in (state.input, state.output)]
    module.attributes[_STATES] = ArrayAttr(tuple(map(StringAttr, pairs)))
