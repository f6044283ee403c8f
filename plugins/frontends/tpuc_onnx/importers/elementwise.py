"""Element-wise arithmetic of two or more operands, with special ops for scalar constants."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_importing.operands import scalar_operand, whole_quotient
from tpuc_ops import top

from tpuc_onnx.building import OnnxBuilder
from tpuc_onnx.importers.common import TABLE, aligned, is_integer, with_number


@TABLE.imports("Add", "Mul", "Sum")
def commutative(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a sum or product of all operands."""
    is_product = node.op_type == "Mul"
    scalar = scalar_operand(node, build)
    if scalar is None:
        return _chain(node, build, top.Mul() if is_product else top.Add())
    index, number = scalar
    op = top.MulConst(const_val=number) if is_product else top.AddConst(const_val=number)
    return with_number(node, build, op, 1 - index)


@TABLE.imports("Sub")
def sub(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a difference."""
    scalar = scalar_operand(node, build)
    if scalar is not None:
        index, number = scalar
        return with_number(node, build, top.SubConst(const_val=number, is_reverse=index == 0), 1 - index)
    return build.build(top.Sub(), [aligned(node, build, 0), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Div")
def div(node: ForeignNode, build: OnnxBuilder) -> Value:
    """Import a quotient; division by a constant becomes a product. Integer quotients are truncated toward 0."""
    kind = build.elem_type(node.inputs[0])
    if is_integer(kind):
        left, right = aligned(node, build, 0), aligned(node, build, 1)
        return whole_quotient(left, right, node.outputs[0], build, unsigned=kind.startswith("u"))
    scalar = scalar_operand(node, build)
    if scalar is not None and scalar[0] == 1 and scalar[1] != 0:
        return with_number(node, build, top.MulConst(const_val=1.0 / scalar[1]), 0)
    if scalar is not None and scalar[0] == 0:
        return with_number(node, build, top.Reciprocal(const_val=scalar[1]), 1)
    return build.build(top.Div(), [aligned(node, build, 0), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Max", "Min")
def extreme(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import the maximum or minimum of all operands."""
    scalar = scalar_operand(node, build)
    largest = node.op_type == "Max"
    if scalar is not None:
        index, number = scalar
        op = top.MaxConst(const_val=number) if largest else top.MinConst(const_val=number)
        return with_number(node, build, op, 1 - index)
    return _chain(node, build, top.Max() if largest else top.Min())


@TABLE.imports("Mean")
def mean(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import the mean of all operands."""
    if len(node.inputs) == 1:
        return build.value(node.inputs[0])
    total = build.build(
        top.Add(), [aligned(node, build, index) for index in range(len(node.inputs))], f"{node.outputs[0]}_sum"
    )
    return build.build(top.MulConst(const_val=1.0 / len(node.inputs)), [total], node.outputs[0])


@TABLE.imports("Mod")
def mod(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import a remainder with the sign of the divisor, or that of the dividend if `fmod`."""
    op = top.Mod(fmod=bool(node.attributes.get("fmod", 0)))
    return build.build(op, [aligned(node, build, 0), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Neg")
def neg(node: ForeignNode, build: ImportBuilder) -> Value:
    """Import the operand times -1."""
    return build.build(top.MulConst(const_val=-1.0), [build.value(node.inputs[0])], node.outputs[0])


def _chain(node: ForeignNode, build: ImportBuilder, op: Op) -> Value:
    """Apply `op` to all operands, constants last."""
    if len(node.inputs) == 1:
        return build.value(node.inputs[0])
    order = sorted(range(len(node.inputs)), key=lambda index: build.constant(node.inputs[index]) is not None)
    return build.build(op, [aligned(node, build, index) for index in order], node.outputs[0])
