"""Element-wise arithmetic of two or more operands, with special ops for scalar constants."""

from __future__ import annotations

from tpuc.api import ForeignNode, Op, Uniform, Value
from tpuc_importing.operands import floor_quotient, whole_quotient
from tpuc_ops import top
from tpuc_ops.elementwise import broadcast_type
from tpuc_ops.quant.tflite import wide_difference

from tpuc_tflite.building import Arranged, TfliteBuilder
from tpuc_tflite.importers.common import TABLE, aligned, finish, float_only, scalar


@TABLE.imports("ADD", "ADD_N")
def add(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import the sum of all operands."""
    if len(node.inputs) == 1:
        return Arranged(build.value(node.inputs[0], build.order(node.inputs[0])), build.order(node.inputs[0]))
    number = scalar(node, build)
    if number is not None:
        return _with_number(node, build, top.AddConst(const_val=number[1]), 1 - number[0])
    return _together(node, build, top.Add())


@TABLE.imports("MUL")
def mul(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import the product of both operands."""
    number = scalar(node, build)
    if number is not None:
        return _with_number(node, build, top.MulConst(const_val=number[1]), 1 - number[0])
    return _together(node, build, top.Mul())


@TABLE.imports("SUB")
def sub(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a difference."""
    number = scalar(node, build)
    if number is not None:
        index, value = number
        return _with_number(node, build, top.SubConst(const_val=value, is_reverse=index == 0), 1 - index)
    return _together(node, build, top.Sub())


@TABLE.imports("DIV")
def div(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a quotient, of integers without a scale truncated toward 0; division of other values by a constant becomes
    a product.
    """
    if _is_whole(node, build) and not build.is_quantized():
        operands, order = aligned(node, build, (0, 1))
        whole = whole_quotient(operands[0], operands[1], f"{node.outputs[0]}_whole", build, unsigned=False)
        return finish(node, build, top.AddConst(const_val=0.0), [whole], order)
    number = scalar(node, build)
    if number is not None and number[0] == 1 and number[1] != 0:
        return _with_number(node, build, top.MulConst(const_val=1.0 / number[1]), 0)
    if number is not None and number[0] == 0:
        return _with_number(node, build, top.Reciprocal(const_val=number[1]), 1)
    return _together(node, build, top.Div())


@TABLE.imports("MAXIMUM", "MINIMUM")
def extreme(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import the maximum or minimum."""
    number, largest = scalar(node, build), node.op_type == "MAXIMUM"
    if number is not None:
        index, value = number
        return _with_number(
            node, build, top.MaxConst(const_val=value) if largest else top.MinConst(const_val=value), 1 - index
        )
    return _together(node, build, top.Max() if largest else top.Min())


@TABLE.imports("SQUARED_DIFFERENCE")
def squared_difference(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import the squared difference; for quantized values the difference has 16 bits, with the runtime's precision."""
    operands, order = aligned(node, build, (0, 1))
    name, types = node.outputs[0], None
    if build.is_quantized():
        left, right = (operand.tensor.element for operand in operands)
        if (
            not isinstance(left, Uniform)
            or not isinstance(right, Uniform)
            or {left.storage.bits, right.storage.bits} != {8}
        ):
            raise build.refuse(
                node, "LiteRT supports it for 8-bit operands with one scale each: quantize them that way"
            )
        inferred = broadcast_type(tuple(operand.tensor for operand in operands))
        types = [inferred.with_element(wide_difference(left, right))]
    difference = build.build(top.Sub(), operands, f"{name}_difference", types)
    return Arranged(build.build(top.Pow(exponent=2.0), [difference], name), order)


@TABLE.imports("FLOOR_DIV")
def floor_div(node: ForeignNode, build: TfliteBuilder) -> Arranged:
    """Import the quotient, rounded down."""
    float_only(node, build)
    operands, order = aligned(node, build, (0, 1))
    name = node.outputs[0]
    if _is_whole(node, build):
        return Arranged(floor_quotient(operands[0], operands[1], name, build), order)
    return Arranged(build.build(top.Floor(), [build.build(top.Div(), operands, f"{name}_quotient")], name), order)


@TABLE.imports("FLOOR_MOD")
def floor_mod(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import the remainder with the divisor's sign."""
    float_only(node, build)
    if not _is_whole(node, build):
        return _together(node, build, top.Mod())
    (left, right), order = aligned(node, build, (0, 1))
    name = node.outputs[0]
    times = build.build(top.Mul(), [floor_quotient(left, right, f"{name}_whole", build), right], f"{name}_times")
    return Arranged(build.build(top.Sub(), [left, times], name), order)


def _is_whole(node: ForeignNode, build: TfliteBuilder) -> bool:
    entry = build.entries.get(node.inputs[0])
    return entry is not None and entry.kind.startswith(("INT", "UINT"))


@TABLE.imports("POW")
def power(node: ForeignNode, build: TfliteBuilder) -> Value | Arranged:
    """Import a power; an exponent common to all elements becomes an attribute."""
    float_only(node, build)
    number = scalar(node, build)
    if number is not None and number[0] == 1:
        return _with_number(node, build, top.Pow(exponent=number[1]), 0)
    return _together(node, build, top.Pow3())


def _with_number(node: ForeignNode, build: TfliteBuilder, op: Op, index: int) -> Value | Arranged:
    """Apply `op` to operand `index`; a constant of higher rank adds dimensions to the result."""
    name, other = node.inputs[index], node.inputs[1 - index]
    rank = len(build.shape(other))
    if rank <= len(build.shape(name)):
        order = build.order(name)
        return finish(node, build, op, [build.value(name, order)], order)
    operands, order = aligned(node, build, (index, 1 - index))
    return finish(node, build, op, operands[:1], order)


def _together(node: ForeignNode, build: TfliteBuilder, op: Op) -> Value | Arranged:
    """Apply `op` to all operands; constants come last if `op` is commutative."""
    indices = list(range(len(node.inputs)))
    if isinstance(op, (top.Add, top.Mul, top.Max, top.Min)):
        indices.sort(key=lambda index: build.constant(node.inputs[index]) is not None)
    operands, order = aligned(node, build, indices)
    return finish(node, build, op, operands, order)
