"""Comparisons, logic, selection, and bitwise logic."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tpuc.api import ForeignNode, ImportBuilder, Value
from tpuc_importing.operands import scalar_operand
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE, aligned, with_number

_ALL_BITS = 64.0
_BITWISE: Mapping[str, str] = {"BitwiseAnd": "And", "BitwiseOr": "Or", "BitwiseXor": "Xor"}


@TABLE.imports("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "And", "Or", "Xor")
def compare(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a comparison; the mode has the operator's name."""
    scalar = scalar_operand(node, build)
    if scalar is not None:
        index, number = scalar
        op = top.CompareConst(mode=node.op_type, const_val=number, inversed=index == 0)
        return with_number(node, build, op, 1 - index)
    return build.build(
        top.Compare(mode=node.op_type), [aligned(node, build, 0), aligned(node, build, 1)], node.outputs[0]
    )


@TABLE.imports("Not")
def not_(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a comparison with 0."""
    return build.build(top.CompareConst(mode="Equal", const_val=0.0), [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("IsNaN")
def is_nan(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a comparison of the operand with itself: only NaN differs."""
    x = build.value(node.inputs[0])
    return build.build(top.Compare(mode="NotEqual"), [x, x], node.outputs[0])


@TABLE.imports("IsInf")
def is_inf(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a test for infinities of both signs, or of one."""
    x, name = build.value(node.inputs[0]), node.outputs[0]
    positive, negative = (node.attributes.get(f"detect_{sign}", 1) for sign in ("positive", "negative"))
    if positive and negative:
        x = build.build(top.Abs(), [x], f"{name}_abs")
    if not positive and not negative:
        return build.build(top.CompareConst(mode="Less", const_val=-math.inf), [x], name)
    return build.build(top.CompareConst(mode="Equal", const_val=math.inf if positive else -math.inf), [x], name)


@TABLE.imports("Where")
def where(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a selection; a branch with a single constant number becomes an attribute."""
    numbers = [build.constant(name) for name in node.inputs[1:]]
    shape = build.shape(node.outputs[0])
    x, y = (float(array.reshape(())) if array is not None and array.size == 1 else None for array in numbers)
    operands = [build.shape(name) for name, number in zip(node.inputs[1:], (x, y), strict=True) if number is None]
    if max(len(build.shape(node.inputs[0])), *(len(dims) for dims in operands), 0) < len(shape):
        x = y = None  # only the number's own rank gives the result its shape
    op = top.Where(
        x_is_const=x is not None,
        y_is_const=y is not None,
        x_const_val=x or 0.0,
        y_const_val=y or 0.0,
    )
    branches = [
        build.none() if number is not None else aligned(node, build, index) for index, number in ((1, x), (2, y))
    ]
    return build.build(op, [aligned(node, build, 0), *branches], node.outputs[0])


@TABLE.imports(*_BITWISE)
def bitwise(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import bitwise logic of two integers."""
    op = top.Bitwise(mode=_BITWISE[node.op_type])
    return build.build(op, [aligned(node, build, 0), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("BitwiseNot")
def bitwise_not(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import ``-1 - x``; for unsigned integers the largest one replaces -1."""
    kind = build.elem_type(node.inputs[0])
    upper = float(2 ** int(kind.lstrip("uint")) - 1) if kind.startswith("u") else -1.0
    return build.build(top.SubConst(const_val=upper, is_reverse=True), [build.value(node.inputs[0])], node.outputs[0])


@TABLE.imports("BitShift")
def bit_shift(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a shift; bits shifted out at the left are dropped. Negative amounts shift all bits out."""
    name, kind = node.outputs[0], build.elem_type(node.inputs[0])
    left = node.attributes.get("direction") == "LEFT"
    cut = left and not kind.startswith("u")
    op = top.Bitwise(
        mode="ShiftLeft" if left else "ShiftRight", bits=int(kind.lstrip("uint")) if left and not cut else 0
    )
    value, amount = aligned(node, build, 0), aligned(node, build, 1)
    if left and not kind.startswith("u"):
        taken = build.build(top.CompareConst(mode="GreaterOrEqual", const_val=0.0), [amount], f"{name}_taken")
        value = build.build(top.Mul(), [value, taken], f"{name}_value")
    elif not kind.startswith("u"):
        below = build.build(top.CompareConst(mode="Less", const_val=0.0), [amount], f"{name}_below")
        most = build.build(top.MulConst(const_val=_ALL_BITS), [below], f"{name}_most")
        amount = build.build(top.Max(), [amount, most], f"{name}_amount")
    result = build.build(op, [value, amount], f"{name}_long" if cut else name)
    return build.build(top.Cast(to=kind.upper()), [result], name) if cut else result
