"""Elementwise comparison, selection, bitwise logic, and integer arithmetic in floats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpuc.api import FunctionNode, Node, Routine
from tpuc_ops import tpu
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import is_absent

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import Operands, refuse_types
from tpuc_c.kernels.elementwise import ElementwiseKernel
from tpuc_c.text import broadcast_strides, c_type, integer, loops, number

MOVES = ("tpuc_moves.h",)
COMPARISONS: Mapping[str, str] = {
    "Equal": "{x} == {y}",
    "NotEqual": "{x} != {y}",
    "Greater": "{x} > {y}",
    "GreaterOrEqual": "{x} >= {y}",
    "Less": "{x} < {y}",
    "LessOrEqual": "{x} <= {y}",
    "And": "{x} != 0 && {y} != 0",
    "Or": "{x} != 0 || {y} != 0",
    "Xor": "({x} != 0) != ({y} != 0)",
}
"""C conditions by mode of `tpu.Compare`."""
BITS: Mapping[str, str] = {
    "And": "{x} & {y}",
    "Or": "{x} | {y}",
    "Xor": "{x} ^ {y}",
    "ShiftLeft": "tpuc_shift_left({x}, {y})",
    "ShiftRight": "tpuc_shift_right({x}, {y})",
}
"""C expressions by mode of `tpu.Bitwise`."""


class FloatResult(ElementwiseKernel[Any]):
    """Base of kernels with float results; operands may have any type."""

    library = MOVES

    def refuse(self, node: Node[Any]) -> str | None:
        if not node.result_type.storage.is_float:
            return f"only floats, this one has {node.result_type.storage}"
        return refuse_types(node)


@TABLE.runs(tpu.Compare)
class CompareKernel(FloatResult):
    """1 where a comparison holds, else 0."""

    def expression(self, call: FunctionNode[Any], values: Sequence[str], operands: Operands) -> str:
        condition = COMPARISONS[call.op.mode].format(x=values[0], y=values[1])
        return f"({condition}) ? 1.0f : 0.0f"


@TABLE.runs(tpu.CompareConst)
class CompareConstKernel(FloatResult):
    """Compares with a constant."""

    def expression(self, call: FunctionNode[Any], values: Sequence[str], operands: Operands) -> str:
        pair = [values[0], number(call.op.const_val)]
        x, y = pair[::-1] if call.op.inversed else pair
        return f"({COMPARISONS[call.op.mode].format(x=x, y=y)}) ? 1.0f : 0.0f"


@TABLE.runs(tpu.Bitwise)
class BitwiseKernel(FloatResult):
    """Bitwise logic of whole numbers."""

    def expression(self, call: FunctionNode[Any], values: Sequence[str], operands: Operands) -> str:
        x, y = (f"tpuc_whole({value})" for value in values)
        result = BITS[call.op.mode].format(x=x, y=y)
        return f"({result}) & {integer((1 << call.op.bits) - 1)}" if 0 < call.op.bits < 32 else result


@TABLE.runs(tpu.Remainder)
class RemainderKernel(FloatResult):
    """Remainder of a division."""

    def expression(self, call: FunctionNode[Any], values: Sequence[str], operands: Operands) -> str:
        return f"{'fmodf' if call.op.fmod else 'tpuc_modulo'}({values[0]}, {values[1]})"


@TABLE.runs(tpu.Truncate)
class TruncateKernel(FloatResult):
    """Truncates to integers of a narrower type."""

    def expression(self, call: FunctionNode[Any], values: Sequence[str], operands: Operands) -> str:
        bits, unsigned = int(call.op.to.lstrip("UINT")), call.op.to.startswith("U")
        return f"tpuc_low_bits({values[0]}, {bits}, {int(unsigned)})"


@TABLE.runs(tpu.RowIndex)
class RowIndexKernel(ElementwiseKernel[tpu.RowIndex]):
    """Converts indices to row positions times a stride."""

    library = MOVES

    def expression(self, call: FunctionNode[tpu.RowIndex], values: Sequence[str], operands: Operands) -> str:
        whole, extent = f"tpuc_whole({values[0]})", integer(call.op.extent)
        at = f"({whole} < 0 ? {whole} + {extent} : {whole}) * {integer(call.op.stride)}"
        return " + ".join([at, *values[1:]])


@TABLE.runs(tpu.Where)
class WhereKernel(ElementwiseKernel[tpu.Where]):
    """Selects one of two stored values."""

    def routine(self, call: FunctionNode[tpu.Where]) -> Routine:
        operands, y, op = Operands(call), call.result, call.op
        present = [index for index, type in enumerate(call.node.operand_types) if not is_absent(type)]
        names = {index: operands.name(index) for index in present}
        views = [call.operand(index) for index in present]
        strides = [y.strides, *(broadcast_strides(view.dims, view.strides, y.dims) for view in views)]
        constants = {1: op.x_const_val, 2: op.y_const_val}

        def statement(at: Sequence[str]) -> str:
            places = dict(zip(present, at[1:], strict=True))

            def branch(index: int) -> str:
                if index in places:
                    return f"{names[index]}[{places[index]}]"
                value = constants[index]
                return integer(int(value)) if is_integer(y.type) else number(value)

            stored = c_type(y.type.storage)
            chosen = f"{names[0]}[{places[0]}] != 0 ? {branch(1)} : {branch(2)}"
            return f"y0[{at[0]}] = ({stored})({chosen});"

        return Routine(loops(y.dims, strides, statement), tuple(operands.constants), (), MOVES)
