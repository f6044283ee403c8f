"""Ops that depend on element order along a dimension: ArgMax, ranking, cumulative sums, row gather and scatter."""

from __future__ import annotations

from collections.abc import Sequence

from tpuc.api import FunctionKernel, FunctionNode, Node, Routine, TensorView, WorkingMemory
from tpuc_ops import tpu
from tpuc_ops.shapes import is_absent, positive_axis

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.choices import MOVES
from tpuc_c.kernels.common import Operands, refuse_types
from tpuc_c.kernels.moves import MoveFunction, copied
from tpuc_c.text import broadcast_strides, c_type, loops


def apart(view: TensorView, axis: int) -> tuple[list[int], list[int]]:
    """Extents and strides of all dimensions except one."""
    kept = [index for index in range(len(view.dims)) if index != axis]
    return [view.dims[index] for index in kept], [view.strides[index] for index in kept]


@TABLE.runs(tpu.Arg)
class ArgKernel(MoveFunction[tpu.Arg]):
    """Index of the extreme element."""

    def routine(self, call: FunctionNode[tpu.Arg]) -> Routine:
        operands, x, y, op = Operands(call), call.operand(0), call.result, call.op
        source, axis = operands.name(0), positive_axis(op.axis, len(x.dims))
        dims, steps = apart(x, axis)
        results = apart(y, axis)[1] if op.keepdims else list(y.strides)
        compare = (">" if op.mode == "ArgMax" else "<") + ("=" if op.select_last_index else "")
        step, count, stored = x.strides[axis], x.dims[axis], c_type(x.type.storage)

        def statement(at: Sequence[str]) -> str:
            return (
                f"const {stored}* const from = {source} + {at[1]};\nint32_t best = 0;\n"
                f"for (int32_t i = 1; i < {count}; ++i) if (from[i * {step}] {compare} from[best * {step}]) best = i;\n"
                f"y0[{at[0]}] = (float)best;"
            )

        return Routine(loops(dims, [results, steps], statement), tuple(operands.constants), (), MOVES)


@TABLE.runs(tpu.Rank)
class RankKernel(MoveFunction[tpu.Rank]):
    """Sorts each row, and stores the rank of each element."""

    def routine(self, call: FunctionNode[tpu.Rank]) -> Routine:
        operands, x, y = Operands(call), call.operand(0), call.result
        source, count = operands.name(0), x.dims[1]
        sign = "-1.0" if call.op.largest else "1.0"

        def statement(at: Sequence[str]) -> str:
            each = f"for (int32_t i = 0; i < {count}; ++i)"
            return (
                f"{each} s0[i] = {source}[{at[1]} + i * {x.strides[1]}];\n"
                f"const int32_t* const order = tpuc_sorted(s0, {count}, {sign}, s1);\n"
                f"{each} y0[{at[0]} + order[i] * {y.strides[1]}] = i;"
            )

        body = loops(x.dims[:1], [y.strides[:1], x.strides[:1]], statement)
        scratch = (WorkingMemory("keys", "double", count * 8), WorkingMemory("order", "int32_t", count * 8))
        return Routine(body, tuple(operands.constants), scratch, MOVES)


@TABLE.runs(tpu.Scan)
class ScanKernel(MoveFunction[tpu.Scan]):
    """Cumulative sums and products."""

    def refuse(self, node: Node[tpu.Scan]) -> str | None:
        if not node.result_type.storage.is_float:
            return f"only floats, this one has {node.result_type.storage}"
        return super().refuse(node)

    def routine(self, call: FunctionNode[tpu.Scan]) -> Routine:
        operands, x, y, op = Operands(call), call.operand(0), call.result, call.op
        source, axis = operands.name(0), positive_axis(op.axis, len(x.dims))
        dims, steps = apart(x, axis)
        start, sign = ("0.0f", "+") if op.mode == "Sum" else ("1.0f", "*")
        last = x.dims[axis] - 1

        def statement(at: Sequence[str]) -> str:
            place = f"({last} - i)" if op.reverse else "i"
            one = f"{source}[{at[1]} + {place} * {x.strides[axis]}]"
            target = f"y0[{at[0]} + {place} * {y.strides[axis]}]"
            taken = f"const float x = {one};\n"
            body = (
                (f"{target} = total;\ntotal = total {sign} x;\n")
                if op.exclusive
                else (f"total = total {sign} x;\n{target} = total;\n")
            )
            return f"float total = {start};\nfor (int32_t i = 0; i <= {last}; ++i) {{\n{taken}{body}}}"

        return Routine(loops(dims, [apart(y, axis)[1], steps], statement), tuple(operands.constants), (), MOVES)


@TABLE.runs(tpu.GatherRows)
class GatherRowsKernel(MoveFunction[tpu.GatherRows]):
    """Gathers rows by index, with zeros for rows out of range."""

    def routine(self, call: FunctionNode[tpu.GatherRows]) -> Routine:
        operands, y = Operands(call), call.result
        x, indices = call.operand(0), call.operand(1)
        source, places = operands.name(0), operands.name(1)
        steps = broadcast_strides(indices.dims, indices.strides, y.dims[:2])

        def statement(at: Sequence[str]) -> str:
            row = f"const int32_t row = {places}[{at[2]}];\nconst int32_t inside = row >= 0 && row < {x.dims[1]};\n"
            each = f"for (int32_t i = 0; i < {y.dims[2]}; ++i)"
            value = f"inside ? {source}[{at[1]} + row * {x.strides[1]} + i * {x.strides[2]}] : 0"
            return f"{row}{each} y0[{at[0]} + i * {y.strides[2]}] = {value};"

        strides = [y.strides[:2], (x.strides[0], 0), steps]
        return Routine(loops(y.dims[:2], strides, statement), tuple(operands.constants), (), MOVES)


@TABLE.runs(tpu.ScatterRows)
class ScatterRowsKernel(FunctionKernel[tpu.ScatterRows]):
    """Replaces rows in the order of the updates."""

    def refuse(self, node: Node[tpu.ScatterRows]) -> str | None:
        return refuse_types(node)

    def routine(self, call: FunctionNode[tpu.ScatterRows]) -> Routine:
        operands, y = Operands(call), call.result
        indices, updates = call.operand(1), call.operand(2)
        if is_absent(call.node.operand_types[0]):
            body = loops(y.dims, [y.strides], lambda at: f"y0[{at[0]}] = 0;")
        else:
            body = copied(y.dims, y.strides, call.operand(0).strides, name=operands.name(0))
        places, source = operands.name(1), operands.name(2)
        channels, count, width = updates.dims
        steps = broadcast_strides(indices.dims, indices.strides, (channels, count))
        body += (
            f"for (int32_t c = 0; c < {channels}; ++c) for (int32_t i = 0; i < {count}; ++i) {{\n"
            f"const int32_t row = {places}[c * {steps[0]} + i * {steps[1]}];\n"
            f"if (row < 0 || row >= {y.dims[1]}) continue;\n"
            f"for (int32_t j = 0; j < {width}; ++j) y0[c * {y.strides[0]} + row * {y.strides[1]} + j * {y.strides[2]}]"
            f" = {source}[c * {updates.strides[0]} + i * {updates.strides[1]} + j * {updates.strides[2]}];\n}}\n"
        )
        return Routine(body, tuple(operands.constants), (), MOVES)
