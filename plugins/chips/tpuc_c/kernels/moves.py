"""Ops that only move elements: permutations, reshapes, slices, repetition, padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tpuc.api import FunctionKernel, FunctionNode, Node, OpT, Routine, TensorView
from tpuc_ops import tpu
from tpuc_ops.integers import integer_bounds, is_integer
from tpuc_ops.shapes import positive_axis

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import Operands, is_byte, point, refuse_shifts, refuse_types
from tpuc_c.kernels.elementwise import MATH, activated, centered, clamped, shifted
from tpuc_c.text import addresses, c_type, integer, loops, number, row_strides


class MoveFunction(FunctionKernel[OpT]):
    """Base of kernels that copy stored elements."""

    def refuse(self, node: Node[OpT]) -> str | None:
        return refuse_types(node)


def copied(dims: Sequence[int], target: Sequence[int], source: Sequence[int], start: int = 0, name: str = "x0") -> str:
    """A copy loop; `start` is the first source element."""
    return loops(dims, [target, source], lambda at: f"y0[{at[0]}] = {name}[{at[1]}{f' + {start}' if start else ''}];")


@TABLE.runs(tpu.Permute)
class PermuteKernel(MoveFunction[tpu.Permute]):
    """Permutes dimensions; an alias where the memory order already matches."""

    def is_alias(self, call: FunctionNode[tpu.Permute]) -> bool:
        turned = self._strides(call)
        return all(
            extent == 1 or one == other
            for extent, one, other in zip(call.result.dims, turned, call.result.strides, strict=True)
        )

    def routine(self, call: FunctionNode[tpu.Permute]) -> Routine:
        return Routine(copied(call.result.dims, call.result.strides, self._strides(call)), library=MATH)

    def _strides(self, call: FunctionNode[tpu.Permute]) -> list[int]:
        return [call.operand(0).strides[axis] for axis in call.op.order]


@TABLE.runs(tpu.Reshape)
class ReshapeKernel(MoveFunction[tpu.Reshape]):
    """Changes the shape; an alias where the memory order is the same."""

    def is_alias(self, call: FunctionNode[tpu.Reshape]) -> bool:
        x, y = call.operand(0), call.result
        return bool(np.array_equal(addresses(x.dims, x.strides), addresses(y.dims, y.strides)))

    def routine(self, call: FunctionNode[tpu.Reshape]) -> Routine:
        x, y = call.operand(0), call.result
        if _is_dense(y):
            return Routine(copied(x.dims, row_strides(x.dims), x.strides), library=MATH)
        if _is_dense(x):
            return Routine(copied(y.dims, y.strides, row_strides(y.dims)), library=MATH)

        def statement(at: Sequence[str]) -> str:
            return f"const int32_t at = {at[1]};\ny0[{at[0]}] = x0[{_divided('at', x)}];"

        return Routine(loops(y.dims, [y.strides, row_strides(y.dims)], statement), library=MATH)


def _is_dense(view: TensorView) -> bool:
    rows = row_strides(view.dims)
    return all(extent == 1 or one == two for extent, one, two in zip(view.dims, view.strides, rows, strict=True))


def _divided(place: str, view: TensorView) -> str:
    """The offset of an element given by its row-major index."""
    rows = row_strides(view.dims)
    parts = [
        f"{place} / {row} % {extent} * {step}"
        for extent, row, step in zip(view.dims, rows, view.strides, strict=True)
        if extent > 1
    ]
    return " + ".join(parts) or "0"


@TABLE.runs(tpu.Slice)
class SliceKernel(MoveFunction[tpu.Slice]):
    """Copies a strided part."""

    def routine(self, call: FunctionNode[tpu.Slice]) -> Routine:
        x, y, op = call.operand(0), call.result, call.op
        first = [
            offset + extent if offset < 0 else min(offset, extent - 1)
            for offset, extent in zip(op.offset, x.dims, strict=True)
        ]
        start = sum(offset * step for offset, step in zip(first, x.strides, strict=True))
        source = [step * stride for step, stride in zip(op.steps, x.strides, strict=True)]
        return Routine(copied(y.dims, y.strides, source, start), library=MATH)


@TABLE.runs(tpu.Concat)
class ConcatKernel(FunctionKernel[tpu.Concat]):
    """Concatenates tensors, each rescaled to the result."""

    def refuse(self, node: Node[tpu.Concat]) -> str | None:
        if is_integer(node.result_type) and not all(map(is_byte, node.operand_types)):
            return "only integers of 8 bits"
        return refuse_types(node) or refuse_shifts(node.op.rshifts or ())

    def routine(self, call: FunctionNode[tpu.Concat]) -> Routine:
        operands, y, op = Operands(call), call.result, call.op
        axis, at, body = positive_axis(op.axis, len(y.dims)), 0, ""
        for index, type in enumerate(call.node.operand_types):
            view, name, start = call.operand(index), operands.name(index), at * y.strides[axis]

            def statement(indices: Sequence[str], index: int = index, name: str = name, start: int = start) -> str:
                value = self._value(call, f"{name}[{indices[1]}]", index)
                return f"y0[{indices[0]} + {start}] = ({c_type(y.type.storage)})({value});"

            body += loops(view.dims, [y.strides, view.strides], statement)
            at += type.dims[axis]
        return Routine(body, tuple(operands.constants), (), MATH)

    def _value(self, call: FunctionNode[tpu.Concat], value: str, index: int) -> str:
        op, type = call.op, call.node.result_type
        if not is_integer(type):
            return activated(value, op)
        if op.multipliers:
            source = call.node.operand_types[index]
            product = f"(int64_t){centered(value, source)} * {integer(op.multipliers[index])}"
            part = shifted(product, (op.rshifts or ())[index], "HalfUp")
            value = f"tpuc_clamp({part}, INT16_MIN, INT16_MAX) + {integer(point(type))}"
        return clamped(value, type, op.do_relu, op.relu_limit) if op.multipliers or op.do_relu else value


@TABLE.runs(tpu.Upsample)
class UpsampleKernel(MoveFunction[tpu.Upsample]):
    """Repeats every row and column."""

    def routine(self, call: FunctionNode[tpu.Upsample]) -> Routine:
        x, y, op = call.operand(0), call.result, call.op
        n, c, h, w = x.dims
        (yn, yc, yh, yw), (xn, xc, xh, xw) = y.strides, x.strides
        dims = (n, c, h, op.scale_h, w, op.scale_w)
        target = (yn, yc, yh * op.scale_h, yh, yw * op.scale_w, yw)
        source = (xn, xc, xh, 0, xw, 0)

        def statement(at: Sequence[str]) -> str:
            value = f"x0[{at[1]}]"
            if is_integer(y.type) and op.do_relu:
                low, high = integer_bounds(y.type, True, op.relu_limit)
                value = f"({c_type(y.type.storage)})tpuc_clamp({value}, {integer(low)}, {integer(high)})"
            elif not is_integer(y.type):
                value = activated(value, op)
            return f"y0[{at[0]}] = {value};"

        return Routine(loops(dims, [target, source], statement), library=MATH)


@TABLE.runs(tpu.Pad)
class PadKernel(MoveFunction[tpu.Pad]):
    """Pads with a value, or by repeating or mirroring the operand."""

    def refuse(self, node: Node[tpu.Pad]) -> str | None:
        if node.op.mode != "constant" and min(node.operand_types[0].dims) < 1:
            return "an empty tensor has no border to repeat"
        return refuse_types(node)

    def routine(self, call: FunctionNode[tpu.Pad]) -> Routine:
        x, y, op = call.operand(0), call.result, call.op
        if op.mode != "constant":
            return self._continued(call)
        if min(op.paddings) < 0:
            return self._cut(call)
        value = integer(int(op.val)) if is_integer(y.type) else number(op.val)
        filled = loops(y.dims, [y.strides], lambda at: f"y0[{at[0]}] = {value};")
        start = sum(before * step for before, step in zip(op.paddings, y.strides, strict=False))
        inner = loops(x.dims, [y.strides, x.strides], lambda at: f"y0[{at[0]} + {start}] = x0[{at[1]}];")
        return Routine(filled + inner, library=MATH)

    def _cut(self, call: FunctionNode[tpu.Pad]) -> Routine:
        """Pad some borders and crop others."""
        x, y, op = call.operand(0), call.result, call.op
        value = integer(int(op.val)) if is_integer(y.type) else number(op.val)
        filled = loops(y.dims, [y.strides], lambda at: f"y0[{at[0]}] = {value};")
        rank = len(x.dims)
        pairs = list(zip(op.paddings[:rank], op.paddings[rank:], strict=True))
        kept = [extent + min(b, 0) + min(a, 0) for extent, (b, a) in zip(x.dims, pairs, strict=True)]
        start, source = (
            sum(max(sign * b, 0) * step for (b, _), step in zip(pairs, view.strides, strict=True))
            for sign, view in ((1, y), (-1, x))
        )
        inner = loops(kept, [y.strides, x.strides], lambda at: f"y0[{at[0]} + {start}] = x0[{at[1]} + {source}];")
        return Routine(filled + (inner if min(kept) > 0 else ""), library=MATH)

    def _continued(self, call: FunctionNode[tpu.Pad]) -> Routine:
        """Repeat or mirror the operand at its borders, with a separate index for each dimension."""
        x, y, op = call.operand(0), call.result, call.op
        function, rank = "tpuc_mirrored" if op.mode == "reflect" else "tpuc_nearest", len(x.dims)
        heads, source = "", list[str]()
        for axis, (extent, step) in enumerate(zip(y.dims, x.strides, strict=True)):
            heads += f"for (int32_t i{axis} = 0; i{axis} < {extent}; ++i{axis}) "
            before, after = op.paddings[axis], op.paddings[rank + axis]
            first, count = max(-before, 0), x.dims[axis] + min(before, 0) + min(after, 0)
            source.append(f"({function}(i{axis} - {max(before, 0)}, {count}) + {first}) * {step}")
        target = " + ".join(f"i{axis} * {step}" for axis, step in enumerate(y.strides))
        return Routine(f"{heads}y0[{target}] = x0[{' + '.join(source)}];\n", library=("tpuc_moves.h",))
