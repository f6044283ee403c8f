"""Rules by which neighboring values share one threshold, so that nothing is rescaled between them."""

from __future__ import annotations

from collections.abc import Iterable

from tpuc.api import Calibrated, FusesRelu, Module, NetworkInput, Operation, Return, TensorType, Value
from tpuc_ops import top
from tpuc_ops.traits import ChoosesElements, KeepsRange, KeepsSign, TakesResultRange, states

from tpuc_quantize.simulation.output_slots import rearranges

LOST = 2.0 ** (8 // 2)
"""An operand smaller than the result by this factor would keep half of its eight bits: no shared threshold."""
NEGLIGIBLE = 2.0 ** (8 + 2)
"""A summand smaller by this factor is below half a step; an element larger by it leaves no resolution."""


def calibration(value: Value) -> Calibrated | None:
    """The range of a calibrated value."""
    element = value.type.element if isinstance(value.type, TensorType) else None
    return element if isinstance(element, Calibrated) else None


def take_range(value: Value, minimum: float, maximum: float) -> bool:
    """Give a calibrated value another range; returns True if that changed anything."""
    old = calibration(value)
    if old is None or (old.minimum, old.maximum) == (minimum, maximum):
        return False
    value.type = value.tensor.with_element(Calibrated(old.expressed, minimum, maximum))
    return True


def operands_of(operation: Operation) -> list[Value]:
    """The calibrated operands."""
    return [operand for operand in operation.operands if calibration(operand) is not None]


def forward(module: Module, operation: Operation, trait: type = KeepsRange) -> bool:
    """Results take the first operand's range, unless the op's results can exceed it."""
    sources = operands_of(operation)
    if not states(operation.op, trait) or not sources or _has_relu(operation):
        return False
    source = calibration(sources[0])
    assert source is not None
    is_input = sources[0].defining is not None and isinstance(sources[0].defining.op, NetworkInput)
    if is_input and any(_is_lost(result, source) for result in operation.results):
        return False  # an input is rounded where it is read: states of different ranges may share one
    if not _stays_within(module, operation, source.minimum, source.maximum) and not _is_mask(operation, source):
        return False
    changed = [
        take_range(result, source.minimum, source.maximum) for result in operation.results if calibration(result)
    ]
    return any(changed)


def _stays_within(module: Module, operation: Operation, low: float, high: float) -> bool:
    """True if the op maps values within a range that includes 0 to results within it."""
    low, high = min(low, 0.0), max(high, 0.0)
    return all(low <= value <= high for value in reached(module, operation, low, high))


def reached(module: Module, operation: Operation, low: float, high: float) -> Iterable[float]:
    """The values beyond its operand's range that the results of an op may have."""
    constants = [module.constant(operand) for operand in operation.operands]
    return operation.op.beyond(low, high, constants) if isinstance(operation.op, KeepsRange) else ()


def _only_summand(operation: Operation) -> Value | None:
    """The operand of a sum when every other operand is smaller than half a step."""
    if not isinstance(operation.op, top.Add) or operation.op.coeff is not None or _has_relu(operation):
        return None
    found = [(known.threshold, place) for place, one in enumerate(operation.operands) if (known := calibration(one))]
    if len(found) < max(len(operation.operands), 2):
        return None
    (second, _), (largest, place) = sorted(found)[-2:]
    return operation.operands[place] if second * NEGLIGIBLE <= largest else None


def backward_sum(operation: Operation) -> bool:
    """The only summand takes the range of the result, so that readers of both share it."""
    operand = _only_summand(operation)
    if operand is None:
        return False
    source, result = calibration(operand), calibration(operation.result)
    if source is None or result is None or source.threshold >= result.threshold:
        return False
    return _fits_sign(operand, result) and take_range(operand, result.minimum, result.maximum)


def forward_sum(operation: Operation) -> bool:
    """The result takes the range of the only summand."""
    operand = _only_summand(operation)
    source = None if operand is None else calibration(operand)
    return source is not None and take_range(operation.result, source.minimum, source.maximum)


def backward_join(operation: Operation) -> bool:
    """Operands of a join without other users take the result's range: the join then only copies. Much smaller ones keep
    theirs where the result is only a network output, which may be computed in floats.
    """
    result = calibration(operation.result) if operation.results else None
    if not isinstance(operation.op, ChoosesElements) or result is None or _has_relu(operation):
        return False
    is_given_out = _is_given_out(operation.result)
    changed = [
        take_range(operand, result.minimum, result.maximum)
        for operand in operands_of(operation)
        if len(operand.uses) == 1 and _fits_sign(operand, result) and not (is_given_out and _is_lost(operand, result))
    ]
    return any(changed)


def _is_given_out(value: Value) -> bool:
    """True if only network outputs use it, directly or through joins."""
    users = value.users
    return bool(users) and all(
        isinstance(user.op, Return) or (rearranges(user.op) and _is_given_out(user.result)) for user in users
    )


def _is_lost(operand: Value, result: Calibrated) -> bool:
    source = calibration(operand)
    return source is not None and source.threshold * LOST < result.threshold


def backward_unary(module: Module, operation: Operation) -> bool:
    """The operand takes the result's range where the op keeps positive values and nothing else uses the operand.

    An op with a slope only raises it: negative values must not be clipped before they are scaled down. An op that
    enlarges negative values leaves it unchanged.
    """
    if not states(operation.op, TakesResultRange) or not operation.results or _has_relu(operation):
        return False
    below_zero = operation.op.below_zero if isinstance(operation.op, TakesResultRange) else "kept"
    (operand, *_), result = operation.operands, calibration(operation.result)
    source = calibration(operand)
    if result is None or source is None or len(operand.uses) != 1:
        return False
    cuts_off = source.threshold > result.threshold or source.minimum < result.minimum
    is_steep = not _stays_within(module, operation, result.minimum, result.maximum)
    if below_zero == "sloped" and (cuts_off or is_steep):
        return False
    if below_zero == "mirrored":
        return take_range(operand, -result.threshold, result.threshold)
    if below_zero == "kept" and not _fits_sign(operand, result):
        return False
    return take_range(operand, result.minimum, result.maximum)


def backward_pad(module: Module, operation: Operation) -> bool:
    """The operand of a pad takes the result's range where pad values exceed its own: chips fill pads with stored values
    of the operand. Not where too little resolution would remain for the operand or its other readers.
    """
    if not isinstance(operation.op, top.Pad):
        return False
    operand, result = operation.operands[0], calibration(operation.result)
    source = calibration(operand)
    if source is None or result is None or _stays_within(module, operation, source.minimum, source.maximum):
        return False
    if _is_mask(operation, source) or (len(operand.uses) > 1 and _is_lost(operand, result)):
        return False
    return take_range(operand, min(source.minimum, result.minimum), max(source.maximum, result.maximum))


def _is_mask(operation: Operation, source: Calibrated) -> bool:
    """True if pad values lie so far outside the range that eight bits would resolve nothing else; they only need to
    stay extreme.
    """
    return isinstance(operation.op, top.Pad) and abs(operation.op.val) > NEGLIGIBLE * source.threshold


def keep_sign(operation: Operation) -> bool:
    """A result of signed operands is signed too, unless a fused relu removes negative values."""
    if not isinstance(operation.op, KeepsSign) or not operation.results or _has_relu(operation):
        return False
    result = calibration(operation.result)
    signed = any(_is_signed(operand) for operand in operands_of(operation))
    if result is None or not signed or result.minimum < 0:
        return False
    return take_range(operation.result, -result.threshold, result.threshold)


def _has_relu(operation: Operation) -> bool:
    return isinstance(operation.op, FusesRelu) and bool(operation.op.__dict__["do_relu"])


def _is_signed(value: Value) -> bool:
    found = calibration(value)
    return found is not None and found.minimum < 0


def _fits_sign(operand: Value, result: Calibrated) -> bool:
    """True unless a signed operand would lose its negative half."""
    return result.minimum < 0 or not _is_signed(operand)
