"""Comparison, logic, selection and integer arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import F32, Lowering, LoweringBuilder, LoweringNode, Op, ScalarType, TensorType, Value, Wants
from tpuc_ops import top, tpu
from tpuc_ops.arrays import stored
from tpuc_ops.shapes import is_absent
from tpuc_ops.top.compare import COMPARISONS

from tpuc_bm1684x.lowerings.common import ALL, FLOATS, INTEGERS, Array, f32_result, float_weight
from tpuc_bm1684x.lowerings.places import as_element, common_element, stored_values, stored_weight
from tpuc_bm1684x.lowerings.table import TABLE


class ExactFloats(Lowering[Any]):
    """Base of float ops on exact operands: f32, or the 16-bit float type that all of them share; quantized operands
    become f32. Ops that only feed a comparison are not rounded to bytes.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        wanted = Wants.FLOAT if node.mode in INTEGERS else Wants.AS_IS
        return (Wants.EXACT if node.op.mode in COMPARISONS else wanted,) * len(node.operand_types)

    def operands(self, node: LoweringNode, build: LoweringBuilder) -> list[Value]:
        """The operands in one float type. Whole numbers and thresholds are not rounded before the comparison."""
        computed = [v for v, c in zip(node.operands, node.constants, strict=True) if c is None]
        elements = {value.tensor.element for value in computed}
        kind = elements.pop() if len(elements) == 1 else F32
        if not isinstance(kind, ScalarType) or not kind.is_float:
            kind = F32
        if any(constant is not None and not _is_exact(constant, kind) for constant in node.constants):
            kind = F32
        return [
            float_weight(build, f"operand{index}", constant, kind.name)
            if constant is not None
            else _cast(node, build, value, kind, index)
            for index, (value, constant) in enumerate(zip(node.operands, node.constants, strict=True))
        ]


def _cast(node: LoweringNode, build: LoweringBuilder, value: Value, kind: ScalarType, index: int) -> Value:
    if value.tensor.element == kind:
        return value
    wanted = value.tensor.with_element(kind).at(None)
    return build(tpu.Cast(with_scale=True), [value], wanted, f"{node.name}_operand{index}")


def _is_exact(constant: Array, kind: ScalarType) -> bool:
    type_ = TensorType(constant.shape, kind)
    with np.errstate(over="ignore"):
        return bool(np.array_equal(stored_as(constant, type_), constant.astype(np.float32), equal_nan=True))


def stored_as(constant: Array, type_: TensorType) -> Array:
    """Constants rounded to a float type, in f32."""
    return stored(constant.astype(np.float32), type_).astype(np.float32)


@TABLE.lowers(top.Compare, *ALL)
class CompareAny(ExactFloats):
    """Gives 1 or 0 in the operands' float type."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        values = self.operands(node, build)
        return [build(tpu.Compare(mode=node.op.mode), values, node.result_type.with_element(values[0].tensor.element))]


@TABLE.lowers(top.CompareConst, *ALL)
class CompareConstAny(ExactFloats):
    """Compares with an immediate; in f32 when 16 bits do not represent the constant exactly."""

    def lower(self, node: LoweringNode[top.CompareConst], build: LoweringBuilder) -> Sequence[Value]:
        (value,) = self.operands(node, build)
        number = np.full((1,), node.op.const_val, np.float32)
        kind = value.tensor.element
        assert isinstance(kind, ScalarType)
        if not _is_exact(number, kind):
            value = _cast(node, build, value, F32, 0)
        lowered = tpu.CompareConst(mode=node.op.mode, const_val=float(number[0]), inversed=node.op.inversed)
        return [build(lowered, [value], node.result_type.with_element(value.tensor.element))]


@TABLE.lowers(top.Bitwise, *ALL)
class BitwiseFloat(Lowering[top.Bitwise]):
    """Operates on whole numbers in f32, in every mode."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(tpu.Bitwise(mode=node.op.mode, bits=node.op.bits), node.operands, f32_result(node))]


@TABLE.lowers(top.Mod, *ALL)
class ModFloat(Lowering[top.Mod]):
    """Computes in f32 in every mode."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.FLOAT,) * len(node.operand_types)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(tpu.Remainder(fmod=node.op.fmod), node.operands, f32_result(node))]


@TABLE.lowers(top.Where, *ALL)
class WhereAny(Lowering[top.Where]):
    """Selects between computed branches in their common stored type; with a constant branch, integers become f32.

    Constants such as masks are far outside the range of other values, so no 8-bit scale represents both.
    """

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        wanted = Wants.MODE if node.mode in FLOATS or self._are_computed(node) else Wants.FLOAT
        condition = Wants.AS_IS if node.mode in FLOATS else Wants.FLOAT
        return (condition, wanted, wanted)[: len(node.operand_types)]

    def _are_computed(self, node: LoweringNode) -> bool:
        branches = zip(node.operand_types[1:3], node.constants[1:3], strict=True)
        return all(not is_absent(type_) and constant is None for type_, constant in branches)

    def lower(self, node: LoweringNode[top.Where], build: LoweringBuilder) -> Sequence[Value]:
        op = node.op
        numbers = [
            self._number(node, 1, op.x_is_const, op.x_const_val),
            self._number(node, 2, op.y_is_const, op.y_const_val),
        ]
        computed = [index for index in (1, 2) if numbers[index - 1] is None]
        tensors = [index for index in computed if node.constants[index] is None]
        element = common_element(node, computed) if tensors else node.float_result_type().element
        result = node.result_type.with_element(element)
        branches: list[Value] = []
        stored: list[float] = []
        for index, number in enumerate(numbers, 1):
            if number is None:
                branches.append(as_element(node, build, index, element))
            elif computed or index == 1:
                branches.append(build.none())
            else:  # one branch must be a tensor
                branches.append(
                    stored_weight(build, "number", np.full((1,) * min(len(result.dims), 1), number, np.float32), result)
                )
                number = None
                numbers[1] = None
            stored.append(0.0 if number is None else float(stored_values(np.asarray(number, np.float32), result)))
        lowered = tpu.Where(
            x_is_const=numbers[0] is not None,
            y_is_const=numbers[1] is not None,
            x_const_val=stored[0],
            y_const_val=stored[1],
        )
        return [build(lowered, [self._condition(node, build), *branches], result)]

    def _condition(self, node: LoweringNode, build: LoweringBuilder) -> Value:
        constant = node.constants[0]
        return node.operands[0] if constant is None else build.weight("mask", (constant != 0).astype(np.uint8), "ui8")

    def _number(self, node: LoweringNode, index: int, is_number: bool, value: float) -> float | None:
        """The value of a branch that is a single number. None for a tensor, including one that adds a dimension to the
        result.
        """
        if is_number:
            return value
        constant = node.constants[index]
        if constant is None or constant.size != 1:
            return None
        others = [type_ for place, type_ in enumerate(node.operand_types) if place != index and not is_absent(type_)]
        is_wider = constant.ndim > max(type_.rank for type_ in others)
        return None if is_wider else float(constant.reshape(-1)[0])


@TABLE.lowers(top.Trilu, *ALL)
class TriluAny(Lowering[top.Trilu]):
    """Selects by a constant mask between stored values and the stored zero."""

    def requires(self, node: LoweringNode) -> Sequence[Wants]:
        return (Wants.AS_IS,)

    def lower(self, node: LoweringNode[top.Trilu], build: LoweringBuilder) -> Sequence[Value]:
        (value,) = node.operands
        ones = np.ones(value.tensor.dims[-2:], np.uint8)
        mask = build.weight("mask", (np.triu if node.op.upper else np.tril)(ones, node.op.diagonal), "ui8")
        zero = float(stored_values(np.zeros((), np.float32), value.tensor))
        lowered: Op = tpu.Where(y_is_const=True, y_const_val=zero)
        return [build(lowered, [mask, value, build.none()], value.tensor.at(None))]
