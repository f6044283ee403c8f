"""Products of two computed matrices, and transposed convolutions, by plain loops."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from tpuc.api import FunctionKernel, FunctionNode, Node, Routine, TensorView, Unsupported, WorkingMemory
from tpuc_ops import tpu
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import is_absent

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import (
    Operands,
    has_computed_bias,
    is_byte,
    is_unsigned,
    point,
    refuse_requantization,
    refuse_types,
)
from tpuc_c.kernels.elementwise import MATH, activated
from tpuc_c.kernels.sums import check_reach, constant_bias, greatest_sum, requantized
from tpuc_c.text import broadcast_strides, c_type, fields, integer, loops, row_strides

Dims = tuple[int, ...]


def _matrices(view: TensorView, transposed: bool) -> tuple[Dims, Dims]:
    """Extents and strides with at least two dimensions, the last two in multiplication order."""
    dims, steps = (view.dims, view.strides) if len(view.dims) > 1 else ((1, *view.dims), (0, *view.strides))
    if not transposed:
        return dims, steps
    return (*dims[:-2], dims[-1], dims[-2]), (*steps[:-2], steps[-1], steps[-2])


def _result(call: FunctionNode[tpu.MatMul], shape: Dims) -> Dims:
    """Strides of the product's elements in the result; raises Unsupported for an order without strides."""
    y, turned = call.result, call.op.output_transpose
    dims = (*shape[:-2], shape[-1], shape[-2]) if turned else shape
    if len(call.operand(0).dims) == 1 and y.dims == (*dims[:-2], dims[-1]):
        steps = (*y.strides[:-1], 0, y.strides[-1])
    elif y.dims == dims:
        steps = y.strides
    elif y.strides == row_strides(y.dims):
        steps = row_strides(dims)
    else:
        raise Unsupported(f"node '{call.node.name}': tpu.MatMul on c: a result of {y.dims} where {dims} is computed")
    return (*steps[:-2], steps[-1], steps[-2]) if turned else steps


def general_product(call: FunctionNode[tpu.MatMul]) -> Routine:
    """Matrix product row by row: operands may have any strides, and batches broadcast."""
    operands, op, type, result = Operands(call), call.op, call.node.operand_types[0], call.node.result_type
    names = operands.name(0), operands.name(1)
    (left, left_steps), (right, right_steps) = (
        _matrices(call.operand(index), turned) for index, turned in ((0, op.left_transpose), (1, op.right_transpose))
    )
    depth, count = left[-1], right[-1]
    batch = np.broadcast_shapes(left[:-2], right[:-2])
    shape = (*batch, left[-2], count)
    steps = _result(call, shape)
    strides = [
        steps[:-1],
        (*broadcast_strides(left[:-2], left_steps[:-2], batch), left_steps[-2]),
        (*broadcast_strides(right[:-2], right_steps[:-2], batch), 0),
    ]
    start, head = "0", ""
    if is_integer(type):
        factors = (op.multipliers, op.rshifts, op.quant_mode, op.scales, op.round_mode)
        out = requantized(call, factors, count)
        widest = [max(abs(zero - low) for low in (-128, 255)) for zero in (op.input_zp, op.right_zp)]
        check_reach(call, depth * math.prod(widest) + greatest_sum(None, out.bias))
        head = out.text(operands)
    elif len(call.operands) > 2 and not is_absent(call.node.operand_types[2]) and call.node.operand_types[2].size:
        bias, name = call.operand(2), operands.name(2)
        if bias.type.size in (1, count):
            along = max((step for extent, step in zip(bias.dims, bias.strides, strict=True) if extent > 1), default=0)
            strides.append((0,) * (len(shape) - 1))
        else:
            repeated = broadcast_strides(bias.dims, bias.strides, shape)
            along = repeated[-1]
            strides.append(repeated[:-1])
        start = f"{name}[{{at}} + n * {along}]"

    def statement(at: Sequence[str]) -> str:
        first = start.format(at=at[3]) if len(at) > 3 else start
        one = f"{names[0]}[{at[1]} + k * {left_steps[-1]}]"
        other = f"{names[1]}[{at[2]} + k * {right_steps[-2]} + n * {right_steps[-1]}]"
        if is_integer(type):
            one, other = f"({one} - {integer(op.input_zp)})", f"({other} - {integer(op.right_zp)})"
        rows, columns = f"for (int32_t k = 0; k < {depth}; ++k)", f"for (int32_t n = 0; n < {count}; ++n)"
        order = f"{rows} {columns}" if right_steps[-1] <= right_steps[-2] else f"{columns} {rows}"
        text = f"{columns} s0[n] = {first};\n{order} s0[n] += {one} * {other};\n"
        if head:
            text += f"tpuc_requantize(&out, s0, {count}, 0);\n"
        value = "s0[n]" if head else activated("s0[n]", op)
        return f"{text}{columns} y0[{at[0]} + n * {steps[-1]}] = ({c_type(result.storage)})({value});"

    sums = WorkingMemory("sums", "int32_t" if head else "float", count * 4)
    return Routine(head + loops(shape[:-1], strides, statement), tuple(operands.constants), (sums,), MATH)


@TABLE.runs(tpu.Deconv)
class DeconvKernel(FunctionKernel[tpu.Deconv]):
    """Transposed convolution that gathers, for each result element, the operand elements that contribute to it."""

    def refuse(self, node: Node[tpu.Deconv]) -> str | None:
        op, (x, filters, *_), result = node.op, node.operand_types, node.result_type
        if x.rank not in (3, 4):
            return f"3 or 4 dimensions, this one has {x.rank}"
        if any(op.inserts or ()):
            return "no zeros between rows"
        if is_integer(x) and (not is_byte(x) or point(x) or filters.storage.bits > 16):
            return "only integers of 8 bits with zero point 0, and filters of at most 16 bits"
        return refuse_types(node) or refuse_requantization(op.multiplier, op.rshift, op.quant_mode, (), result)

    def routine(self, call: FunctionNode[tpu.Deconv]) -> Routine:
        operands, op, type, result = Operands(call), call.op, call.node.operand_types[0], call.node.result_type
        weights = call.array(1)
        if weights is None:
            raise Unsupported(f"node '{call.node.name}': {op.name} on c: only constant filters")
        members, (batch, out_c, out_h, out_w), (yn, yc, yh, yw) = _members(call)
        turned = weights.reshape(out_c // op.group, op.group, -1, members["kernel_h"], members["kernel_w"])
        filters = np.ascontiguousarray(turned.transpose(1, 0, 3, 4, 2)).reshape(out_c, -1)
        head = f"const tpuc_transposed t = {{{fields(members)}}};\n"
        integers = is_integer(type)
        source, packed = operands.name(0), operands.add(filters.astype(np.int16 if integers else np.float32))
        function = (
            f"tpuc_transposed_{'uint8' if is_unsigned(type) else 'int8'}" if integers else "tpuc_transposed_float"
        )
        sum_at = f"{function}(&t, {source} + {{n}}, {packed}, o, oh, ow)"
        if integers:
            out = requantized(call, (op.multiplier, op.rshift, op.quant_mode, (), op.round_mode), out_c)
            check_reach(call, greatest_sum(filters, out.bias, 255))
            head += out.text(operands)
            value = f"int32_t sum = {sum_at};\ntpuc_requantize(&out, &sum, 1, o);\n"
        else:
            name = "x2"
            if not has_computed_bias(call, out_c):
                name = operands.add(np.ascontiguousarray(constant_bias(call, out_c, np.float32)))
            value = f"const float sum = {activated(f'({sum_at} + {name}[o])', op)};\n"
        value = value.format(n=f"n * {members['x_n']}")
        counts = (("n", batch), ("oh", out_h), ("ow", out_w), ("o", out_c))
        each = " ".join(f"for (int32_t {name} = 0; {name} < {extent}; ++{name})" for name, extent in counts)
        target = f"y0[n * {yn} + o * {yc} + oh * {yh} + ow * {yw}]"
        body = f"{head}{each} {{\n{value}{target} = ({c_type(result.storage)})sum;\n}}\n"
        return Routine(body, tuple(operands.constants), (), ("tpuc_transposed.h",))


def _members(call: FunctionNode[tpu.Deconv]) -> tuple[dict[str, int], Dims, Dims]:
    """Members of the library's struct, and extents and strides of the result."""
    op, x, y = call.op, call.operand(0), call.result
    dims, steps, out, places = x.dims, x.strides, y.dims, y.strides
    if len(dims) == 3:  # one row
        dims, steps = (*dims[:2], 1, dims[2]), (*steps[:2], 0, steps[2])
        out, places = (*out[:2], 1, out[2]), (*places[:2], 0, places[2])
    names = ("batch", "in_c", "in_h", "in_w", "x_n", "x_c", "x_h", "x_w", "out_c", "out_h", "out_w")
    members = dict(zip(names, (*dims, *steps, *out[1:]), strict=True))
    members |= dict(zip(("y_n", "y_c", "y_h", "y_w"), places, strict=True))
    window = op.window()
    pairs = {"kernel": window.kernel, "stride": window.strides, "pad": window.pads, "dilation": window.dilations}
    members |= {f"{name}_{axis}": pair[index] for name, pair in pairs.items() for index, axis in enumerate("hw")}
    return {**members, "groups": op.group}, out, places
