"""Ops over all elements along dimensions: softmax and reductions."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import FunctionKernel, FunctionNode, Node, Routine, WorkingMemory
from tpuc_ops import tpu
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import positive_axis

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import ROUNDINGS, Operands, is_byte, point, refuse_shifts, refuse_types
from tpuc_c.kernels.elementwise import MATH, centered, clamped, shifted
from tpuc_c.text import c_type, integer, loops, number


@TABLE.runs(tpu.Softmax)
class SoftmaxKernel(FunctionKernel[tpu.Softmax]):
    """Softmax from exponentials of floats, or from a table of the distances to the largest integer."""

    def refuse(self, node: Node[tpu.Softmax]) -> str | None:
        if is_integer(node.operand_types[0]) and not is_byte(node.operand_types[0]):
            return "only integers of 8 bits"
        if is_integer(node.operand_types[0]) and (node.op.log or node.op.factor != 1.0):
            return "a softmax of integers has neither logarithm nor factor"
        return refuse_types(node)

    def routine(self, call: FunctionNode[tpu.Softmax]) -> Routine:
        operands, x, y, op = Operands(call), call.operand(0), call.result, call.op
        axis = positive_axis(op.axis, len(x.dims))
        count, step, to = x.dims[axis], x.strides[axis], y.strides[axis]
        dims = [extent for index, extent in enumerate(x.dims) if index != axis]
        outer = [[s for index, s in enumerate(view.strides) if index != axis] for view in (y, x)]
        body = self._integers if is_integer(x.type) else self._floats

        def statement(at: Sequence[str]) -> str:
            source, target = f"x0[{at[1]} + i * {step}]", f"y0[{at[0]} + i * {to}]"
            each = f"for (int32_t i = 0; i < {count}; ++i)"
            largest = f"{c_type(x.type.storage)} largest = x0[{at[1]}];\n"
            largest += f"{each} largest = {source} > largest ? {source} : largest;\n"
            return largest + body(call, operands, source, target, each)

        scratch = (WorkingMemory("exponentials", "float", count * 4),)
        return Routine(loops(dims, outer, statement), tuple(operands.constants), scratch, MATH)

    def _floats(self, call: FunctionNode[tpu.Softmax], operands: Operands, source: str, target: str, each: str) -> str:
        beta = number(call.op.beta)
        below = f"{beta} * ({source} - largest)"
        text = f"float total = 0.0f;\n{each} {{\ns0[i] = expf({below});\ntotal += s0[i];\n}}\n"
        if call.op.log:
            return f"{text}{each} {target} = {below} - logf(total);"
        return f"{text}{each} {target} = s0[i] / total;"

    def _integers(
        self, call: FunctionNode[tpu.Softmax], operands: Operands, source: str, target: str, each: str
    ) -> str:
        table, result = operands.name(1), call.node.result_type
        text = f"float total = 0.0f;\n{each} {{\ns0[i] = {table}[largest - {source}];\ntotal += s0[i];\n}}\n"
        value = "s0[i] / total"
        if is_integer(result):
            scale, zero = number(1.0 / result.uniform.scale), integer(point(result))
            low, high = result.uniform.bounds
            rounded = f"tpuc_round({value} * {scale}, {ROUNDINGS[call.op.round_mode]}, -65536, 65536)"
            value = f"({c_type(result.storage)})tpuc_clamp({rounded} + {zero}, {integer(low)}, {integer(high)})"
        return f"{text}{each} {target} = {value};"


FLOAT_MODES = {
    "ReduceMean": "+",
    "ReduceSum": "+",
    "ReduceMax": ">",
    "ReduceMin": "<",
    "ReduceProd": "*",
    "ReduceL1": "+",
    "ReduceL2": "+",
}
PARTS = {"ReduceL1": "fabsf({x})", "ReduceL2": "{x} * {x}"}
"""The summands of a mode, where they are not the elements themselves."""


@TABLE.runs(tpu.Reduce)
class ReduceKernel(FunctionKernel[tpu.Reduce]):
    """Sums, means, products, norms and extremes along dimensions."""

    def refuse(self, node: Node[tpu.Reduce]) -> str | None:
        op = node.op
        if op.mode not in FLOAT_MODES:
            return f"only {', '.join(FLOAT_MODES)}, this one is {op.mode}"
        if is_integer(node.result_type) and not is_byte(node.operand_types[0]):
            return "only integers of 8 bits"
        return refuse_types(node) or refuse_shifts((op.rshift,))

    def routine(self, call: FunctionNode[tpu.Reduce]) -> Routine:
        x, y, op, type = call.operand(0), call.result, call.op, call.node.result_type
        axes = sorted({positive_axis(axis, len(x.dims)) for axis in op.axes})
        kept = [axis for axis in range(len(x.dims)) if axis not in axes]
        results = y.strides if not op.keepdims else [y.strides[axis] for axis in kept]
        inner_dims = [x.dims[axis] for axis in axes]
        total = "int64_t" if is_integer(type) and op.mode in ("ReduceSum", "ReduceMean") else c_type(x.type.storage)
        start = {"+": "0", "*": "1"}.get(FLOAT_MODES[op.mode], "x0[{}]")
        count = x.type.size // max(type.size, 1)

        def statement(at: Sequence[str]) -> str:
            def take(inside: Sequence[str]) -> str:
                value = f"x0[first + {inside[0]}]"
                if FLOAT_MODES[op.mode] in "+*":
                    part = PARTS.get(op.mode, "{x}").format(x=value)
                    return f"total {FLOAT_MODES[op.mode]}= {centered(value, x.type) if is_integer(type) else part};"
                return f"if ({value} {FLOAT_MODES[op.mode]} total) total = {value};"

            text = f"const int32_t first = {at[1]};\n{total} total = {start.format('first')};\n"
            text += loops(inner_dims, [[x.strides[axis] for axis in axes]], take, "j")
            return f"{text}y0[{at[0]}] = {self._value(call, count)};"

        outer = [list(results), [x.strides[axis] for axis in kept]]
        return Routine(loops([x.dims[axis] for axis in kept], outer, statement), library=MATH)

    def _value(self, call: FunctionNode[tpu.Reduce], count: int) -> str:
        op, type = call.op, call.node.result_type
        if not is_integer(type):
            ends = {"ReduceMean": f"total / {number(count)}", "ReduceL2": "sqrtf(total)"}
            return ends.get(op.mode, "total")
        if op.mode == "ReduceMax":
            return "total"
        scaled = shifted(f"total * {integer(op.multiplier)}", op.rshift, op.round_mode)
        return f"({c_type(type.storage)}){clamped(f'{scaled} + {integer(point(type))}', type, False, -1.0)}"
