"""Element-wise arithmetic of two or more operands, with forms of its own for scalar constants."""

from __future__ import annotations

from tpuc.api import ForeignNode, ImportBuilder, Op, Value
from tpuc_ops.top.add import Add
from tpuc_ops.top.add_const import AddConst
from tpuc_ops.top.div import Div
from tpuc_ops.top.max import Max
from tpuc_ops.top.max_const import MaxConst
from tpuc_ops.top.min import Min
from tpuc_ops.top.min_const import MinConst
from tpuc_ops.top.mul import Mul
from tpuc_ops.top.mul_const import MulConst
from tpuc_ops.top.reciprocal import Reciprocal
from tpuc_ops.top.sub import Sub
from tpuc_ops.top.sub_const import SubConst

from tpuc_onnx.importers.common import TABLE, aligned, reshape


@TABLE.imports("Add", "Sum")
def add(node: ForeignNode, build: ImportBuilder) -> Value:
    """Sum of all operands."""
    scalar = _scalar(node, build)
    if scalar is not None:
        index, number = scalar
        return _with_number(node, build, AddConst(const_val=number), 1 - index)
    return _chain(node, build, Add())


@TABLE.imports("Mul")
def mul(node: ForeignNode, build: ImportBuilder) -> Value:
    """Product of both operands."""
    scalar = _scalar(node, build)
    if scalar is not None:
        index, number = scalar
        return _with_number(node, build, MulConst(const_val=number), 1 - index)
    return _chain(node, build, Mul())


@TABLE.imports("Sub")
def sub(node: ForeignNode, build: ImportBuilder) -> Value:
    """Difference, in the operands' order."""
    scalar = _scalar(node, build)
    if scalar is not None:
        index, number = scalar
        return _with_number(node, build, SubConst(const_val=number, is_reverse=index == 0), 1 - index)
    return build.build(Sub(), [aligned(node, build, 0), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Div")
def div(node: ForeignNode, build: ImportBuilder) -> Value:
    """Quotient; by a constant it is a product."""
    scalar = _scalar(node, build)
    if scalar is not None and scalar[0] == 1 and scalar[1] != 0:
        return _with_number(node, build, MulConst(const_val=1.0 / scalar[1]), 0)
    if scalar is not None and scalar[0] == 0:
        return _with_number(node, build, Reciprocal(const_val=scalar[1]), 1)
    return build.build(Div(), [aligned(node, build, 0), aligned(node, build, 1)], node.outputs[0])


@TABLE.imports("Max", "Min")
def extreme(node: ForeignNode, build: ImportBuilder) -> Value:
    """The largest or smallest of all operands."""
    scalar = _scalar(node, build)
    largest = node.op_type == "Max"
    if scalar is not None:
        index, number = scalar
        op = MaxConst(const_val=number) if largest else MinConst(const_val=number)
        return _with_number(node, build, op, 1 - index)
    return _chain(node, build, Max() if largest else Min())


@TABLE.imports("Neg")
def neg(node: ForeignNode, build: ImportBuilder) -> Value:
    """The operand times -1."""
    return build.build(MulConst(const_val=-1.0), [build.value(node.inputs[0])], node.outputs[0])


def _scalar(node: ForeignNode, build: ImportBuilder) -> tuple[int, float] | None:
    """Position and number of the operand that is a constant of one element, when there are two operands."""
    if len(node.inputs) != 2:
        return None
    for index in (1, 0):
        array = build.constant(node.inputs[index])
        if array is not None and array.size == 1:
            return index, float(array.reshape(()))
    return None


def _with_number(node: ForeignNode, build: ImportBuilder, op: Op, index: int) -> Value:
    """`op` on operand `index`; a scalar of higher rank adds dimensions to the result."""
    name, shape = node.outputs[0], build.shape(node.outputs[0])
    value = build.value(node.inputs[index])
    if value.tensor.dims == shape:
        return build.build(op, [value], name)
    return reshape(build, build.build(op, [value], f"{name}_flat"), shape, name)


def _chain(node: ForeignNode, build: ImportBuilder, op: Op) -> Value:
    """`op` on all operands, constants last."""
    if len(node.inputs) == 1:
        return build.value(node.inputs[0])
    order = sorted(range(len(node.inputs)), key=lambda index: build.constant(node.inputs[index]) is not None)
    return build.build(op, [aligned(node, build, index) for index in order], node.outputs[0])
