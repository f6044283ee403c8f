"""Find attention masks: numbers far below all others, added to scores or selected instead of them, to exclude places
from a softmax or a maximum.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tpuc.api import Constant, Module, NetworkInput, NoneType, Op, Operation, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array
from tpuc_ops.traits import Concatenates, ExtractsFeatures, Repeats, StridedView, states

HIDDEN = 50.0
"""Numbers below this mask a place: exp(-50) is 2e-22. Swin masks with -100; learned position biases of trained networks
stay within 20. A larger number would leave masks in eight bits, a smaller one would put biases in floats.
"""
FAR = -5000.0
"""Channel biases below this mask their channels, whatever follows."""
_FEW = (top.AddConst, top.SubConst, top.MulConst, top.Cast, top.Clip, top.MaxConst, top.MinConst)
"""Ops that a mask input may pass through on its way to the scores, besides moves. This and `_JOINS` are the grammar of
expressions that are recognized as masks, not facts about the ops.
"""
_JOINS = (top.Add, top.Sub, top.Mul, top.Div, top.Where, top.Max, top.Min, top.Pad)
"""Ops that join parts of a mask, or a mask and scores, besides concatenation."""


def masked_scores(module: Module) -> frozenset[Operation]:
    """The ops that make masks and mask scores, and the softmaxes and maxima that read these."""
    behind, found = behind_heavy(module), set[Operation]()
    for operation in module.main.operations:
        if _chooses(operation):
            path = set(_path(operation.operands[0]))
            if any(_hides(module, one, behind, operation.op) for one in path):
                found |= path | {operation}
    return frozenset(found)


def hidden_values(module: Module) -> frozenset[str]:
    """The names of values that may be -inf at masked places: masks, mask inputs, and masked scores."""
    found = masked_scores(module)
    inputs = (value.name for one in found for value in one.operands if _is_input(value))
    return frozenset(result.name for one in found for result in one.results).union(inputs)


def mask_inputs(module: Module) -> list[Value]:
    """Float inputs that are masks."""
    found = masked_scores(module)
    behind, result = behind_heavy(module), dict[Value, None]()
    for operation in found:
        if isinstance(operation.op, (top.Add, top.Sub, top.Min, top.Where)):
            branches = operation.operands[isinstance(operation.op, top.Where) :]
            for side in (one for one in branches if not _is_behind(one, behind)):
                result |= dict.fromkeys(_inputs_of(side))
    return sorted(result, key=lambda value: value.name)


def _inputs_of(value: Value) -> Iterator[Value]:
    """Float inputs from which a few ops compute a value without enlarging them much."""
    producer = value.defining
    if producer is None or isinstance(value.type, NoneType) or not value.tensor.storage.is_float:
        return
    if isinstance(producer.op, NetworkInput):
        yield value
    elif (_passes(producer.op) or isinstance(producer.op, (top.Add, top.Sub))) and not _is_large(producer.op):
        for operand in producer.operands:
            yield from _inputs_of(operand)


def _is_large(op: Op) -> bool:
    return isinstance(op, (top.MulConst, top.AddConst, top.SubConst)) and abs(op.const_val) >= HIDDEN


def _is_input(value: Value) -> bool:
    return value.defining is not None and isinstance(value.defining.op, NetworkInput)


def behind_heavy(module: Module) -> set[Operation]:
    """Operations that depend on a heavy one."""
    behind: set[Operation] = set()
    for operation in module.main.operations:
        producers = [operand.defining for operand in operation.operands if operand.defining is not None]
        if any(isinstance(producer.op, ExtractsFeatures) or producer in behind for producer in producers):
            behind.add(operation)
    return behind


def _chooses(operation: Operation) -> bool:
    """True if the result depends only on the largest elements, or is 0 for others."""
    match operation.op:
        case top.Softmax() | top.Arg() | top.TopK() | top.MaxPool() | top.Sigmoid() | top.Exp():
            return True
        case top.Reduce(mode=mode):
            return mode == "ReduceMax"
        case _:
            return False


def _passes(op: Op) -> bool:
    """True if it moves a mask, or combines it with a number."""
    return isinstance(op, _FEW) or states(op, StridedView, Repeats)


def _is_cheap(op: Op) -> bool:
    return _passes(op) or isinstance(op, (*_JOINS, Concatenates))


def _path(value: Value) -> Iterator[Operation]:
    """The cheap ops that lead to a value."""
    stack, seen = [value], set[Operation]()
    while stack:
        producer = stack.pop().defining
        if producer is not None and producer not in seen and _is_cheap(producer.op):
            seen.add(producer)
            stack += producer.operands
            yield producer


def _hides(module: Module, operation: Operation, behind: set[Operation], chooser: Op | None = None) -> bool:
    """True if the operation masks places for `chooser`. An input added to scores may do so for a softmax, or for a
    product whose largest results are selected.
    """
    op = operation.op
    if isinstance(op, top.Where):
        numbers = [op.x_const_val] * op.x_is_const + [op.y_const_val] * op.y_is_const
        constants = _constants(module, operation.operands[1:])
        return any(number <= -HIDDEN for number in numbers) or any(map(is_hiding, constants))
    if isinstance(op, top.Pad):
        return op.val <= -HIDDEN
    if not isinstance(op, (top.Add, top.Sub, top.Min)):
        return False
    if any(is_hiding(-one if isinstance(op, top.Sub) else one) for one in _constants(module, operation.operands)):
        return True
    sides = [one for one in operation.operands if not _is_behind(one, behind)]
    joins_scores = isinstance(chooser, top.Softmax) or len(sides) < len(operation.operands)
    return any(_is_mask(module, one, joins_scores) for one in sides)


def is_hiding(array: Array) -> bool:
    """True if a constant is a mask: some numbers mask, others are far above them."""
    low, high = (float(limit) for limit in (array.min(initial=0.0), array.max(initial=-np.inf)))
    return low <= -HIDDEN and high > low / 4


def hides_channels(summand: Array, operation: Operation) -> bool:
    """True if the summand of an operation's channels is a mask. Folded pixel means reach -1000."""
    far = summand.min(initial=0.0) <= FAR
    return is_hiding(summand) and (far or any(isinstance(user.op, top.Softmax) for user in operation.result.users))


def shown(array: Array) -> Array:
    """The elements that are not masked, or a 0."""
    return array[array > -HIDDEN] if (array > -HIDDEN).any() else np.zeros(1, np.float32)


def _constants(module: Module, values: tuple[Value, ...]) -> list[Array]:
    arrays = [module.constant(value) for value in values if not isinstance(value.type, NoneType)]
    return [np.asarray(array) for array in arrays if array is not None and np.asarray(array).dtype.kind == "f"]


def _is_behind(value: Value, behind: set[Operation]) -> bool:
    producer = value.defining
    return producer is not None and (producer in behind or isinstance(producer.op, ExtractsFeatures))


def _is_mask(module: Module, value: Value, joins_scores: bool) -> bool:
    """True if the summand of scores is a mask: one computed with a large number, or possibly an input."""
    stack, is_input = [value], True
    while stack:
        producer = stack.pop().defining
        if producer is None or isinstance(producer.op, Constant):
            continue
        op = producer.op
        if isinstance(op, NetworkInput):
            if is_input and joins_scores:
                return True
            continue
        if _is_large(op):
            return True
        large = (np.abs(one).max(initial=0.0) >= HIDDEN for one in _constants(module, producer.operands))
        if isinstance(op, (top.Mul, top.Div, top.Add, top.Sub)) and any(large):
            return True
        if isinstance(op, top.Where) and _hides(module, producer, set()):
            return True
        if not _is_cheap(op):
            continue
        is_input = is_input and _passes(op)
        stack += producer.operands
    return False
