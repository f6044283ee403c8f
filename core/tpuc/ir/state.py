"""State that outlives a run, such as the cache of a decoder: an output that is an input of the next run.

A module stores the pairs that its compiled file keeps in the attribute `module.states`, and those that its front end
knows in `module.state_pairs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuc.ir.attributes import ArrayAttr, StringAttr
from tpuc.ir.traits import NetworkInput
from tpuc.ir.types import TensorType, Type, Uniform

if TYPE_CHECKING:
    from tpuc.ir import Module

_STATES = "module.states"
_PAIRS = "module.state_pairs"


@dataclass(frozen=True)
class State:
    """The next run reads the value `output` of this run as `input`; the first run reads zeros, quantized integers their
    zero point. Both are names of values of one type.
    """

    input: str
    output: str


def states_of(module: Module) -> tuple[State, ...]:
    """The states of a module; empty where it has none."""
    return _stated(module, _STATES)


def state_pairs(module: Module) -> tuple[State, ...]:
    """Inputs and outputs that are states in the network's file; they need not be kept by the compiled one."""
    return _stated(module, _PAIRS)


def note_state_pairs(module: Module, states: Sequence[State]) -> None:
    """Record which inputs and outputs are states in the network's file."""
    if states:
        module.attributes[_PAIRS] = _attribute(states)


def first_value(type: TensorType) -> int:
    """What every stored element of a state is before the first run."""
    return type.element.zero_point if isinstance(type.element, Uniform) else 0


def _stored(type: Type) -> object:
    """What tells whether two values have the same bytes; the range that one is calibrated to does not."""
    if not isinstance(type, TensorType):
        return type
    return type.dims, type.element if isinstance(type.element, Uniform) else type.storage


def _attribute(states: Sequence[State]) -> ArrayAttr:
    pairs = [name for state in states for name in (state.input, state.output)]
    return ArrayAttr(tuple(map(StringAttr, pairs)))


def _stated(module: Module, name: str) -> tuple[State, ...]:
    stated = module.attributes.get(name)
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
        if _stored(inputs[state.input]) != _stored(outputs[state.output]):
            raise ValueError(
                f"input '{state.input}' is {inputs[state.input]} and output '{state.output}' is "
                f"{outputs[state.output]}; a state has one type"
            )
    for names in ([state.input for state in states], [state.output for state in states]):
        if len(set(names)) < len(names):
            raise ValueError(f"a value is in two states: {', '.join(names)}")
    module.attributes[_STATES] = _attribute(states)
