"""Find the values that a network's outputs are assembled from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from tpuc.api import Constant, Module, NetworkInput, Op, Value
from tpuc_ops import top
from tpuc_ops.traits import Concatenates, Reorders, states

from tpuc_quantize.simulation.network import FakeNetwork


def rearranges(op: Op) -> bool:
    """True if the result consists of the operands in another order or shape: boxes and scores in one tensor are two
    outputs.
    """
    return states(op, Reorders, Concatenates)


def is_scaling(op: Op) -> bool:
    """True if the result is the operand in other units, with the same meaning."""
    return isinstance(op, top.MulConst) and not op.do_relu and op.const_val != 0


def output_parts(module: Module, through: tuple[type[Op], ...] = ()) -> Iterator[Value]:
    """The outputs of a module, the values they are concatenated from, and the values they are multiples of, each once;
    also the parts of the first operand of `through`.
    """
    seen: set[str] = set()
    stack = list(reversed(module.main.outputs))
    while stack:
        value = stack.pop()
        producer = value.defining
        if producer is None or value.name in seen or isinstance(producer.op, (Constant, NetworkInput)):
            continue
        seen.add(value.name)
        yield value
        if rearranges(producer.op) or is_scaling(producer.op):
            stack += reversed(producer.operands)
        elif isinstance(producer.op, through):
            stack.append(producer.operands[0])


def output_slots(
    net: FakeNetwork,
    *,
    behind: Sequence[int] | None = None,
    whole: Collection[int] = (),
    instead: Mapping[int, int] | None = None,
) -> list[int]:
    """The slots in which errors are measured: outputs, or the values they are concatenated from (boxes and scores in
    one tensor are two outputs) or are multiples of. A final Softmax, whose results are mostly 0 or 1, is replaced by
    its operand unless in `whole`; `instead` replaces some of these by others. With `behind`, the slots that these
    are computed from, instead of outputs.
    """
    producers = {slot: step for step in net.plan.steps for slot in step.results}
    result: list[int] = []
    stack = list(behind) if behind is not None else [slot for _, slot in reversed(net.plan.outputs)]
    while stack:
        slot = stack.pop()
        step = producers.get(slot)
        if step is not None and slot not in whole and _passes(step.operation.op):
            stack += [one for one in reversed(step.operands) if one not in net.constants and one]
        elif (found := (instead or {}).get(slot, slot)) not in result:
            result.append(found)
    return result


def _passes(op: Op) -> bool:
    return isinstance(op, top.Softmax) or rearranges(op) or is_scaling(op)
