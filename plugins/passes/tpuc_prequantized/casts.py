"""Turn QuantizeLinear and DequantizeLinear into casts to and from quantized types, and merge consecutive casts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tpuc.api import (
    F32,
    InvalidModel,
    NetworkInput,
    Operation,
    Pattern,
    Return,
    Rewriter,
    ScalarType,
    Uniform,
    Value,
)
from tpuc_ops import top
from tpuc_ops.linear import integer_range
from tpuc_ops.quant.casts import Dequantize, Quantize
from tpuc_ops.traits import PicksElements
from tpuc_optimize.canonicalization.common import Names, is_output

from tpuc_prequantized.common import CHIP_BITS

NEAREST = Quantize(round_mode="HalfToEven")
"""The rounding of QuantizeLinear."""


class CastsFromStated(Pattern):
    """A QuantizeLinear read only by DequantizeLinears with the same parameters becomes a cast, and so do these.

    Integers of fewer bits become 8-bit ones with a clipped operand, since chips saturate at 8 bits. Finer steps are
    dropped, because chips compute these values in floats; their limits stay, as they may be all that is left of a relu.
    `wide` are such values.
    """

    matches = (top.QuantizeLinear,)

    def __init__(self, names: Names) -> None:
        self._names = names
        self.wide: list[str] = []

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: top.QuantizeLinear = operation.op  # pyright: ignore[reportAssignmentType]  # `matches` says so
        check_scales(operation, op.y_scale)
        users = list(operation.result.users)
        if len(op.y_scale) > 1 or not users or not all(_reads_back(user) for user in users):
            return False
        for user in users:
            _check_same(operation, op, user)
        bits = _bits(op.to)
        if bits > CHIP_BITS:
            return self._to_floats(operation, op, rewriter)
        source, kind = operation.operands[0], op.to
        if bits < CHIP_BITS:
            kind = f"{op.to.rstrip('0123456789')}{CHIP_BITS}"
            source = self._limited(operation, op, rewriter)
        type_ = source.tensor.with_element(uniform(kind, op.y_scale, op.y_zero_point))
        stored = rewriter.build(NEAREST, [source], type_, operation.name)
        for user in users:
            if isinstance(user.op, top.DequantizeLinear):
                _read_back(rewriter, user, stored)
        rewriter.replace(operation, stored)
        return True

    def _to_floats(self, operation: Operation, op: top.QuantizeLinear, rewriter: Rewriter) -> bool:
        """Readers of the numbers get them unrounded; integers that are network results stay."""
        users = [user for user in operation.result.users if isinstance(user.op, top.DequantizeLinear)]
        if not users:
            return False
        self.wide.append(operation.name)
        limited = self._limited(operation, op, rewriter)
        for user in users:
            rewriter.replace(user, limited)
        return True

    def _limited(self, operation: Operation, op: top.QuantizeLinear, rewriter: Rewriter) -> Value:
        """The operand clipped to the range that the integers represent."""
        low, high = ((bound - op.y_zero_point[0]) * op.y_scale[0] for bound in integer_range(op.to))
        source = operation.operands[0]
        if is_within(source, low - op.y_scale[0] / 2, high + op.y_scale[0] / 2):
            return source
        name = self._names.new(f"{operation.name}_limited")
        return rewriter.build(top.Clip(min=low, max=high), [source], source.type, name)


class StoredInputs(Pattern):
    """A network input whose integers are only read by DequantizeLinears with equal parameters gets their type.

    Integers of more bits are integer-valued floats.
    """

    matches = (top.DequantizeLinear,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        op: top.DequantizeLinear = operation.op  # pyright: ignore[reportAssignmentType]  # `matches` says so
        check_scales(operation, op.x_scale)
        value = operation.operands[0]
        producer = value.defining
        if producer is None or not isinstance(producer.op, NetworkInput) or len(op.x_scale) > 1:
            return False
        users = list(value.users)
        if any(user.op != op for user in users) or not op.of or _bits(op.of) > CHIP_BITS:
            return False
        type_ = value.tensor.with_element(uniform(op.of, op.x_scale, op.x_zero_point))
        for stored in (producer.operands[0], value):
            stored.type = type_
        for user in users:
            _read_back(rewriter, user, value)
        return True


class CastsOfCasts(Pattern):
    """Integers converted to floats and back are only rescaled."""

    matches = (Quantize,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        before = operation.operands[0].defining
        if before is None or not isinstance(before.op, Dequantize):
            return False
        source = before.operands[0]
        if is_weight(source):
            return False
        if source.tensor.element == operation.result.tensor.element and not is_output(operation.result):
            rewriter.replace(operation, source)
        else:
            rewriter.set_operand(operation, 0, source)
        return True


class EqualCasts(Pattern):
    """All readers share one cast per type."""

    matches = (Quantize,)

    def rewrite(self, operation: Operation, rewriter: Rewriter) -> bool:
        for other in operation.operands[0].users:
            if other is operation or other.op != operation.op or other.result.type != operation.result.type:
                continue
            if is_output(other.result) or not _comes_before(operation, other):
                continue
            rewriter.replace(other, operation.result)
            return True
        return False


def uniform(storage: str, scales: Sequence[float], zero_points: Sequence[int]) -> Uniform:
    """The type of integers of an ONNX type such as UINT8 with one scale; 4-bit ones are stored in 8 bits."""
    (scale,), (zero_point,) = scales, zero_points
    low, high = integer_range(storage)
    narrow = _bits(storage) < CHIP_BITS
    kind = ScalarType("u8" if storage.startswith("U") else "i8")
    return Uniform(kind, F32, scale, zero_point, low if narrow else None, high if narrow else None)


def check_scales(operation: Operation, scales: tuple[float, ...]) -> None:
    """Raise InvalidModel for an invalid scale."""
    bad = next((scale for scale in scales if not (math.isfinite(scale) and scale > 0)), None)
    if bad is not None:
        raise InvalidModel(
            f"op '{operation.name}' ({operation.op.name}): its scale is {bad:g}, but scales must be above 0. Quantize "
            "the network again."
        )


def is_weight(value: Value) -> bool:
    """True for a constant."""
    return value.defining is not None and isinstance(value.defining.op, top.Weight)


def is_within(value: Value, low: float, high: float) -> bool:
    """True if every element is known to lie between these numbers."""
    producer = value.defining
    if producer is None:
        return False
    op = producer.op
    if isinstance(op, top.Clip):
        return low <= op.min and op.max <= high
    if isinstance(op, (top.HardSigmoid, top.Sigmoid)) or (isinstance(op, top.Softmax) and not op.log):
        return low <= 0 and high >= 1
    if isinstance(op, PicksElements):
        return is_within(producer.operands[0], low, high)
    return False


def _reads_back(user: Operation) -> bool:
    return isinstance(user.op, (top.DequantizeLinear, Return))


def _read_back(rewriter: Rewriter, user: Operation, stored: Value) -> None:
    rewriter.at(user)
    rewriter.replace(user, rewriter.build(Dequantize(), [stored], user.result.type, user.name))


def _check_same(operation: Operation, op: top.QuantizeLinear, user: Operation) -> None:
    if not isinstance(user.op, top.DequantizeLinear):
        return
    scale, found = (op.y_scale, op.y_zero_point), (user.op.x_scale, user.op.x_zero_point)
    if scale != found:
        raise InvalidModel(
            f"op '{user.name}' ({user.op.name}): it reads '{operation.name}' with scale {found[0][0]:g} and zero "
            f"point {found[1][0]}, but it was quantized with {scale[0][0]:g} and {scale[1][0]}. Quantize the network "
            "again."
        )


def _bits(storage: str) -> int:
    return int(storage.removeprefix("U").removeprefix("INT"))


def _comes_before(first: Operation, second: Operation) -> bool:
    block = first.block
    return block is not None and second.block is block and block.position(first) < block.position(second)
