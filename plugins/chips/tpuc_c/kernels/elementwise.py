"""Elementwise casts, sums, products, tables and functions, as loops generated per node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from tpuc.api import FunctionKernel, FunctionNode, Node, OpT, Routine, TensorType, Uniform, numpy_dtype
from tpuc_ops import tpu
from tpuc_ops.elementwise import ReluFields
from tpuc_ops.integers import integer_bounds, is_integer
from tpuc_ops.quant.arithmetic import Rounding, round_to_int
from tpuc_ops.tpu.cast import WHOLE

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import ROUNDINGS, Operands, is_byte, point, refuse_shifts, refuse_types, relu_bounds
from tpuc_c.text import broadcast_strides, c_type, integer, loops, number

MATH = ("tpuc_math.h",)


class ElementwiseKernel(FunctionKernel[OpT]):
    """Base of elementwise kernels: one C expression per element. Operands broadcast along extents of 1."""

    library: ClassVar[Sequence[str]] = MATH
    """Library headers that the expressions use."""

    def refuse(self, node: Node[OpT]) -> str | None:
        return refuse_types(node)

    def count(self, call: FunctionNode[OpT]) -> int:
        """Number of operands with an element for each result element."""
        return len(call.operands)

    def expression(self, call: FunctionNode[OpT], values: Sequence[str], operands: Operands) -> str:
        """The C expression of the stored result for one element."""
        raise NotImplementedError

    def routine(self, call: FunctionNode[OpT]) -> Routine:
        operands, result = Operands(call), call.result
        views = [call.operand(index) for index in range(self.count(call))]
        names = [operands.name(index) for index in range(len(views))]
        strides = [result.strides, *(broadcast_strides(view.dims, view.strides, result.dims) for view in views)]

        def statement(indices: Sequence[str]) -> str:
            values = [f"{name}[{index}]" for name, index in zip(names, indices[1:], strict=True)]
            stored = c_type(result.type.storage)
            return f"y0[{indices[0]}] = ({stored})({self.expression(call, values, operands)});"

        return Routine(loops(result.dims, strides, statement), tuple(operands.constants), (), tuple(self.library))


def activated(value: str, op: ReluFields) -> str:
    """Apply the op's relu to a float expression."""
    if not op.do_relu:
        return value
    low, high = relu_bounds(True, op.relu_limit)
    return f"tpuc_within({value}, {low}, {high})"


def clamped(value: str, type: TensorType, do_relu: bool, limit: float) -> str:
    """Clamp an integer expression to the bounds of its type and relu."""
    low, high = integer_bounds(type, do_relu, limit)
    return f"tpuc_clamp({value}, {integer(low)}, {integer(high)})"


def centered(value: str, type: TensorType) -> str:
    """A stored integer expression minus its zero point."""
    zero = point(type)
    return f"({value} - {integer(zero)})" if zero else value


def shifted(value: str, shift: int, rounding: str) -> str:
    """A 64-bit integer expression divided by a power of two, with rounding."""
    return f"tpuc_shift({value}, {shift}, {ROUNDINGS[rounding]})"


@TABLE.runs(tpu.Cast)
class CastKernel(ElementwiseKernel[tpu.Cast]):
    """Casts between integers and f32."""

    def refuse(self, node: Node[tpu.Cast]) -> str | None:
        if node.op.in_half:
            return "no products in bf16"
        return refuse_types(node)

    def is_alias(self, call: FunctionNode[tpu.Cast]) -> bool:
        x, y = call.operand(0), call.result
        return x.type.storage == y.type.storage and x.type.storage.is_float and x.strides == y.strides

    def expression(self, call: FunctionNode[tpu.Cast], values: Sequence[str], operands: Operands) -> str:
        op, (x,), source, result = call.op, values, call.node.operand_types[0], call.node.result_type
        if source.storage.is_float and result.storage.is_float:
            return x
        scale, zero = _scale(op, result if source.storage.is_float else source)
        if not source.storage.is_float:
            return f"(float)({x} - {integer(zero)}) * {number(scale)}"
        scaled = f"{x} * {number(1.0 / np.float64(scale))}"
        if op.divides(result):
            scaled = f"{x} / {number(scale)}"
            if zero:
                scaled = f"({scaled} + {number(WHOLE)}) - {number(WHOLE - zero)}"
        elif zero:
            scaled = f"({scaled}) + {number(zero)}"
        limits = np.iinfo(numpy_dtype(result.storage).name)
        bounds = f"{integer(int(limits.min))}, {integer(int(limits.max))}"
        return f"tpuc_round({scaled}, {ROUNDINGS[op.round_mode]}, {bounds})"


def _scale(op: tpu.Cast, type: TensorType) -> tuple[float, int]:
    if op.with_scale and isinstance(type.element, Uniform):
        return type.element.scale, type.element.zero_point
    return 1.0, 0


class SumKernel(ElementwiseKernel[OpT]):
    """Base of sums and differences: operands in the result's scale, each with its sign."""

    def refuse(self, node: Node[Any]) -> str | None:
        if is_integer(node.result_type) and not all(map(is_byte, node.operand_types)):
            return "only operands of 8 bits"
        return refuse_types(node) or refuse_shifts(node.op.rshifts)

    def signs(self, op: Any, count: int) -> Sequence[int]:
        """The sign of each operand."""
        raise NotImplementedError

    def expression(self, call: FunctionNode[Any], values: Sequence[str], operands: Operands) -> str:
        op, result = call.op, call.node.result_type
        signs = self.signs(op, len(values))
        if not is_integer(result):
            factors = op.coeff or (1.0,) * len(values)
            terms = [x if c == 1.0 else f"{x} * {number(c)}" for x, c in zip(values, factors, strict=True)]
            if signs[0] < 0:
                terms, signs = terms[::-1], signs[::-1]
            total = terms[0]
            for term, sign in zip(terms[1:], signs[1:], strict=True):
                total = f"({total}) {'+' if sign > 0 else '-'} {term}"
            return activated(total, op)
        total = self._integers(call, values, signs)
        return clamped(f"{total} + {integer(point(result))}", result, op.do_relu, op.relu_limit)

    def _integers(self, call: FunctionNode[Any], values: Sequence[str], signs: Sequence[int]) -> str:
        op = call.op
        pairs = list(zip(values, call.node.operand_types, op.multipliers, signs, strict=True))
        if len(op.rshifts) == 1 < len(values):
            products = [f"(int64_t){centered(x, t)} * {integer(m * sign)}" for x, t, m, sign in pairs]
            return shifted(" + ".join(products), op.rshifts[0], "HalfUp")
        terms = [
            f"{integer(sign)} * tpuc_clamp({shifted(f'(int64_t){centered(x, t)} * {integer(m)}', shift, 'HalfUp')}, "
            "INT16_MIN, INT16_MAX)"
            for (x, t, m, sign), shift in zip(pairs, op.rshifts, strict=False)
        ]
        last = op.rshifts[len(values) :]
        total = " + ".join(terms)
        return shifted(total, last[0], "HalfUp") if last else total


@TABLE.runs(tpu.Add)
class AddKernel(SumKernel[tpu.Add]):
    """Sum of all operands."""

    def signs(self, op: Any, count: int) -> Sequence[int]:
        return (1,) * count


@TABLE.runs(tpu.Sub)
class SubKernel(SumKernel[tpu.Sub]):
    """Difference of two operands."""

    def signs(self, op: Any, count: int) -> Sequence[int]:
        return (-1, 1) if op.is_reverse else (1, -1)


@TABLE.runs(tpu.Mul)
class MulKernel(ElementwiseKernel[tpu.Mul]):
    """Product of all operands."""

    def refuse(self, node: Node[tpu.Mul]) -> str | None:
        op = node.op
        if is_integer(node.result_type):
            if len(node.operand_types) > 2 or not all(map(is_byte, node.operand_types)):
                return "only two operands of 8 bits"
            if op.quant_mode != "MultiplierShift":
                return f"only multiplier and shift, this one has {op.quant_mode}"
        return refuse_types(node) or refuse_shifts((op.rshift,))

    def expression(self, call: FunctionNode[tpu.Mul], values: Sequence[str], operands: Operands) -> str:
        op, result = call.op, call.node.result_type
        if not is_integer(result):
            return activated(" * ".join(values), op)
        factors = [centered(x, type) for x, type in zip(values, call.node.operand_types, strict=True)]
        product = f"(int64_t){' * '.join(factors)} * {integer(op.multiplier)}"
        total = f"{shifted(product, op.rshift, op.round_mode)} + {integer(point(result))}"
        return clamped(total, result, op.do_relu, op.relu_limit)


@TABLE.runs(tpu.MulShift)
class MulShiftKernel(ElementwiseKernel[tpu.MulShift]):
    """Rescales stored integers."""

    def refuse(self, node: Node[tpu.MulShift]) -> str | None:
        if not is_byte(node.operand_types[0]):
            return "only operands of 8 bits"
        return refuse_types(node) or refuse_shifts((node.op.rshift,))

    def expression(self, call: FunctionNode[tpu.MulShift], values: Sequence[str], operands: Operands) -> str:
        op, result = call.op, call.node.result_type
        product = f"(int64_t){centered(values[0], call.node.operand_types[0])} * {integer(op.multiplier)}"
        total = f"{shifted(product, op.rshift, op.round_mode)} + {integer(point(result))}"
        return clamped(total, result, False, -1.0)


class FloatKernel(ElementwiseKernel[OpT]):
    """Base of kernels that compute only in floats."""

    def refuse(self, node: Node[OpT]) -> str | None:
        if is_integer(node.result_type):
            return f"only floats, this one has {node.result_type.storage}"
        return refuse_types(node)


@TABLE.runs(tpu.MulConst)
class MulConstKernel(FloatKernel[tpu.MulConst]):
    """Multiplies by a constant."""

    def expression(self, call: FunctionNode[tpu.MulConst], values: Sequence[str], operands: Operands) -> str:
        return activated(f"{values[0]} * {number(call.op.const_val)}", call.op)


@TABLE.runs(tpu.AddConst)
class AddConstKernel(ElementwiseKernel[tpu.AddConst]):
    """Adds a constant; for integers, in the scale of the product."""

    def refuse(self, node: Node[tpu.AddConst]) -> str | None:
        if is_integer(node.result_type) and not is_byte(node.operand_types[0]):
            return "only operands of 8 bits"
        return refuse_types(node) or refuse_shifts((node.op.rshift,))

    def expression(self, call: FunctionNode[tpu.AddConst], values: Sequence[str], operands: Operands) -> str:
        op, result = call.op, call.node.result_type
        if is_integer(result):
            product = f"(int64_t){centered(values[0], call.node.operand_types[0])} * {integer(op.multiplier)}"
            added = round_to_int(op.const_val, Rounding.HALF_AWAY_FROM_ZERO)
            total = shifted(f"{product} + {integer(int(added))}", op.rshift, "HalfUp")
            return clamped(f"{total} + {integer(point(result))}", result, op.do_relu, op.relu_limit)
        return activated(f"{values[0]} + {number(call.op.const_val)}", call.op)


@TABLE.runs(tpu.Div)
class DivKernel(FloatKernel[tpu.Div]):
    """Quotient of two operands."""

    def expression(self, call: FunctionNode[tpu.Div], values: Sequence[str], operands: Operands) -> str:
        x, y = reversed(values) if call.op.is_reverse else values
        return activated(f"{x} / {y}", call.op)


@TABLE.runs(tpu.Relu)
class ReluKernel(ElementwiseKernel[tpu.Relu]):
    """Clamps to 0 and the limit."""

    def expression(self, call: FunctionNode[tpu.Relu], values: Sequence[str], operands: Operands) -> str:
        result, limit = call.node.result_type, call.op.relu_limit
        if is_integer(result):
            return clamped(values[0], result, True, limit)
        low, high = relu_bounds(True, limit)
        return f"tpuc_within({values[0]}, {low}, {high})"


@TABLE.runs(tpu.Clip)
class ClipKernel(ElementwiseKernel[tpu.Clip]):
    """Clamps to two bounds."""

    def expression(self, call: FunctionNode[tpu.Clip], values: Sequence[str], operands: Operands) -> str:
        result = call.node.result_type
        low, high = call.op.bounds(result)
        if is_integer(result):
            return f"tpuc_clamp({values[0]}, {integer(int(low))}, {integer(int(high))})"
        return f"tpuc_within({values[0]}, {number(low)}, {number(high)})"


@TABLE.runs(tpu.Max, tpu.Min)
class ExtremeKernel(ElementwiseKernel[Any]):
    """Maximum or minimum of all operands."""

    def expression(self, call: FunctionNode[Any], values: Sequence[str], operands: Operands) -> str:
        sign = ">" if isinstance(call.op, tpu.Max) else "<"
        chosen = values[0]
        for value in values[1:]:
            chosen = f"({chosen} {sign} {value} ? {chosen} : {value})"
        return chosen


@TABLE.runs(tpu.Lut)
class LutKernel(ElementwiseKernel[tpu.Lut]):
    """Table lookup with 256 entries, or with a table for each channel."""

    def count(self, call: FunctionNode[tpu.Lut]) -> int:
        return 1

    def routine(self, call: FunctionNode[tpu.Lut]) -> Routine:
        operands, x, y = Operands(call), call.operand(0), call.result
        table = operands.name(1)
        steps = [0] * len(y.dims)
        if call.node.operand_types[1].size != 256:
            steps[1] = 256

        def statement(indices: Sequence[str]) -> str:
            return f"y0[{indices[0]}] = {table}[{indices[2]} + (uint8_t)x0[{indices[1]}]];"

        body = loops(y.dims, [y.strides, x.strides, steps], statement)
        return Routine(body, tuple(operands.constants), (), MATH)


FUNCTIONS = {
    "ABSVAL": "fabsf({x})",
    "ARCCOS": "acosf({x})",
    "ARCCOSH": "acoshf({x})",
    "ARCSIN": "asinf({x})",
    "ARCSINH": "asinhf({x})",
    "ARCTAN": "atanf({x})",
    "ARCTANH": "atanhf({x})",
    "CEIL": "ceilf({x})",
    "COS": "cosf({x})",
    "COSH": "coshf({x})",
    "ERF": "erff({x})",
    "EXP": "expf({x})",
    "FLOOR": "floorf({x})",
    "GELU": "{x} * (0.5f * (1.0f + erff({x} * 0.70710678f)))",
    "HSWISH": "{x} * tpuc_within(" + number(1 / 6) + " * {x} + 0.5f, 0.0f, 1.0f)",
    "LN": "logf({x})",
    "LOG_SIGMOID": "-tpuc_softplus(-({x}))",
    "MISH": "{x} * tanhf(tpuc_softplus({x}))",
    "RELU": "{x} > 0.0f ? {x} : 0.0f",
    "ROUND": "rintf({x})",
    "RSQRT": "1.0f / sqrtf({x})",
    "SIGMOID": "tpuc_sigmoid({x})",
    "SILU": "{x} * tpuc_sigmoid({x})",
    "SIGN": "{x} != {x} ? {x} : (float)(({x} > 0.0f) - ({x} < 0.0f))",
    "SIN": "sinf({x})",
    "SINH": "sinhf({x})",
    "SOFT_PLUS": "tpuc_softplus({x})",
    "SOFT_SIGN": "{x} / (1.0f + fabsf({x}))",
    "SQRT": "sqrtf({x})",
    "SQUARE": "{x} * {x}",
    "TAN": "tanf({x})",
    "TANH": "tanhf({x})",
    "TGELU": "0.5f * {x} * (1.0f + tanhf(0.7978845608f * ({x} + 0.044715f * {x} * {x} * {x})))",
}
"""C expressions by mode of `tpu.Active`."""


@TABLE.runs(tpu.Active)
class ActiveKernel(FloatKernel[tpu.Active]):
    """Activation functions of floats."""

    def refuse(self, node: Node[tpu.Active]) -> str | None:
        if node.op.mode not in (*FUNCTIONS, "ELU", "HSIGMOID"):
            return f"mode {node.op.mode} has no function"
        return super().refuse(node)

    def count(self, call: FunctionNode[tpu.Active]) -> int:
        return 1

    def expression(self, call: FunctionNode[tpu.Active], values: Sequence[str], operands: Operands) -> str:
        op, (x,) = call.op, values
        coeffs = [number(c) for c in op.coeffs or ()]
        if op.mode == "ELU":
            return f"{x} > 0.0f ? {x} : {coeffs[0]} * expm1f({x})"
        if op.mode == "HSIGMOID":
            return f"tpuc_within({coeffs[0]} * {x} + {coeffs[1]}, 0.0f, 1.0f)"
        return FUNCTIONS[op.mode].format(x=x)


def _reaches(call: FunctionNode[Any]) -> str:
    """How a centered operand compares with 0, where both branches are 0. Compilers reject what is always true."""
    source = call.node.operand_types[0]
    return ">" if source.storage.is_unsigned and point(source) == 0 else ">="


@TABLE.runs(tpu.LeakyRelu)
class LeakyReluKernel(ElementwiseKernel[tpu.LeakyRelu]):
    """Leaky relu with one slope below zero."""

    def refuse(self, node: Node[tpu.LeakyRelu]) -> str | None:
        op = node.op
        return refuse_types(node) or refuse_shifts((op.rshift or 0, op.rshift_neg or 0))

    def expression(self, call: FunctionNode[tpu.LeakyRelu], values: Sequence[str], operands: Operands) -> str:
        op, (x,), result = call.op, values, call.node.result_type
        if not is_integer(result):
            return f"{x} > 0.0f ? {x} : {number(op.alpha or 0.0)} * {x}"
        value = f"(int64_t){centered(x, call.node.operand_types[0])}"
        above = value
        if op.multiplier is not None:
            above = shifted(f"{value} * {integer(op.multiplier)}", op.rshift or 0, op.round_mode)
        below = shifted(f"{value} * {integer(op.multiplier_neg or 0)}", op.rshift_neg or 0, op.round_mode)
        total = f"({value} {_reaches(call)} 0 ? {above} : {below}) + {integer(point(result))}"
        return clamped(total, result, False, -1.0)


@TABLE.runs(tpu.PReluOp)
class PReluKernel(ElementwiseKernel[tpu.PReluOp]):
    """PRelu with a slope for each channel."""

    def refuse(self, node: Node[tpu.PReluOp]) -> str | None:
        op = node.op
        return refuse_types(node) or refuse_shifts((op.rshift, op.rshift_pos or 0))

    def expression(self, call: FunctionNode[tpu.PReluOp], values: Sequence[str], operands: Operands) -> str:
        op, (x, slope, *_), result = call.op, values, call.node.result_type
        if not is_integer(result):
            return f"{x} > 0.0f ? {x} : {slope} * {x}"
        value = f"(int64_t){centered(x, call.node.operand_types[0])}"
        above = value
        if op.multiplier_pos is not None:
            above = shifted(f"{value} * {integer(op.multiplier_pos)}", op.rshift_pos or 0, op.round_mode)
        below = shifted(f"{value} * {slope}", op.rshift, op.round_mode)
        total = f"({value} {_reaches(call)} 0 ? {above} : {below}) + {integer(point(result))}"
        return clamped(total, result, False, -1.0)

    def count(self, call: FunctionNode[tpu.PReluOp]) -> int:
        return 2


@TABLE.runs(tpu.Scale)
class ScaleKernel(ElementwiseKernel[tpu.Scale]):
    """Multiplies by a factor and adds a bias, per channel."""

    def count(self, call: FunctionNode[tpu.Scale]) -> int:
        return 1

    def expression(self, call: FunctionNode[tpu.Scale], values: Sequence[str], operands: Operands) -> str:
        raise NotImplementedError("channels have an index of their own")

    def refuse(self, node: Node[tpu.Scale]) -> str | None:
        if is_integer(node.result_type) and not is_byte(node.operand_types[0]):
            return "only operands of 8 bits"
        return refuse_types(node)

    def routine(self, call: FunctionNode[tpu.Scale]) -> Routine:
        operands, x, y, op = Operands(call), call.operand(0), call.result, call.op
        names = [
            operands.name(index) if index < len(call.operands) and call.operands[index] is not None else None
            for index in (1, 2, 3)
        ]
        channel = [0] * len(y.dims)
        channel[1] = 1
        type = call.node.result_type

        def statement(indices: Sequence[str]) -> str:
            value, at = f"x0[{indices[1]}]", indices[2]
            scale, bias, shift = (None if name is None else f"{name}[{at}]" for name in names)
            if not is_integer(type):
                total = f"{value} * {scale}"
                return f"y0[{indices[0]}] = {activated(total if bias is None else f'({total}) + {bias}', op)};"
            total = f"(int64_t){centered(value, call.node.operand_types[0])} * {scale} + {bias or 0}"
            if shift is not None:
                total = f"tpuc_shift({total}, -{shift}, TPUC_HALF_UP)"
            stored = clamped(f"{total} + {integer(point(type))}", type, op.do_relu, op.relu_limit)
            return f"y0[{indices[0]}] = ({c_type(type.storage)}){stored};"

        body = loops(y.dims, [y.strides, x.strides, channel], statement)
        return Routine(body, tuple(operands.constants), (), MATH)
