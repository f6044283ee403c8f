"""Operands of foreign nodes, and reshaped or permuted values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_ops import top
from tpuc_ops.arrays import Array


def constant_input(node: ForeignNode, build: ImportBuilder, index: int, meaning: str) -> Array | None:
    """Return an operand that must be constant; None if it is absent."""
    if index >= len(node.inputs) or not node.inputs[index]:
        return None
    array = build.constant(node.inputs[index])
    if array is None:
        raise build.refuse(
            node, f"{meaning} is computed at run time (tensor '{node.inputs[index]}'), but must be a constant"
        )
    return array


def required_constant(node: ForeignNode, build: ImportBuilder, index: int, meaning: str) -> Array:
    """Return an operand that must be present and constant."""
    array = constant_input(node, build, index, meaning)
    if array is None:
        raise build.refuse(node, f"{meaning} is missing")
    return array


def check_places(node: ForeignNode, build: ImportBuilder, index: int, extents: int | Sequence[int]) -> None:
    """Raise ValueError if a constant operand has an index beyond `extents`: one, or one for each number of a row."""
    places = build.constant(node.inputs[index])
    if places is None:
        return
    limits = np.broadcast_to(np.asarray(extents), places.shape)
    wrong = (places < -limits) | (places >= limits)
    if wrong.any():
        raise ValueError(f"index {places[wrong][0]} is beyond the extent {limits[wrong][0]}")


def integers(array: Array | Sequence[int]) -> tuple[int, ...]:
    """Return a constant as a list of integers."""
    return tuple(int(item) for item in np.asarray(array).reshape(-1))


def optional_value(node: ForeignNode, build: ImportBuilder, index: int) -> Value:
    """Return an operand that may be absent."""
    return build.value(node.inputs[index]) if index < len(node.inputs) else build.none()


def reshape(build: ImportBuilder, value: Value, shape: Sequence[int], name: str) -> Value:
    """Return `value` in another shape; itself if it already has that shape."""
    if value.tensor.dims == tuple(shape):
        return value
    if not shape:  # an empty list of extents means that the declared type says them
        return build.build(top.Reshape(), [value], name, [value.tensor.with_shape(())])
    return build.build(top.Reshape(shape=tuple(shape)), [value], name)


def permute(build: ImportBuilder, value: Value, order: Sequence[int], name: str) -> Value:
    """Return `value` with permuted axes; itself if the order is unchanged."""
    if tuple(order) == tuple(range(len(order))):
        return value
    return build.build(top.Permute(order=tuple(order)), [value], name)


def scalar_operand(node: ForeignNode, build: ImportBuilder) -> tuple[int, float] | None:
    """Return index and number of the operand that is a one-element constant, if there are two operands."""
    if len(node.inputs) != 2:
        return None
    for index in (1, 0):
        array = build.constant(node.inputs[index])
        if array is not None and array.size == 1:
            return index, float(array.reshape(()))
    return None


def chain(build: ImportBuilder, value: Value, ops: Sequence[Op], name: str) -> Value:
    """Apply unary ops one after the other; the last result gets the name."""
    for index, op in enumerate(ops):
        inner = name if index == len(ops) - 1 else f"{name}_{op.name.rpartition('.')[2].lower()}"
        value = build.build(op, [value], inner)
    return value


def floor_quotient(left: Value, right: Value, name: str, build: ImportBuilder) -> Value:
    """Return the quotient of integers, rounded down, with the divisor's sign moved to the dividend.

    Chips that divide by a reciprocal give 2.9999998 for 6 / 2, so half a unit is added to the dividend; the nearest
    quotient that rounds to another integer is twice as far away.
    """
    sign, size = build.build(top.Sign(), [right], f"{name}_sign"), build.build(top.Abs(), [right], f"{name}_size")
    signed = build.build(top.Mul(), [left, sign], f"{name}_signed")
    return unsigned_quotient(signed, size, name, build)


def unsigned_quotient(left: Value, right: Value, name: str, build: ImportBuilder) -> Value:
    """As `floor_quotient`, for positive divisors."""
    raised = build.build(top.AddConst(const_val=0.5), [left], f"{name}_raised")
    return build.build(top.Floor(), [build.build(top.Div(), [raised, right], f"{name}_quotient")], name)


def whole_quotient(left: Value, right: Value, name: str, build: ImportBuilder, *, unsigned: bool) -> Value:
    """Return the quotient of integers, truncated toward 0."""
    if unsigned:
        return unsigned_quotient(left, right, name, build)
    signs = [build.build(top.Sign(), [one], f"{name}_sign{index}") for index, one in enumerate((left, right))]
    sizes = [build.build(top.Abs(), [one], f"{name}_size{index}") for index, one in enumerate((left, right))]
    whole = unsigned_quotient(sizes[0], sizes[1], f"{name}_whole", build)
    return build.build(top.Mul(), [whole, build.build(top.Mul(), signs, f"{name}_sign")], name)
