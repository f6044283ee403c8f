"""Max and average pooling."""

from __future__ import annotations

import numpy as np
from tpuc.api import FunctionKernel, FunctionNode, Node, Routine, WorkingMemory
from tpuc_ops import tpu
from tpuc_ops.integers import integer_bounds, is_integer

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import (
    Operands,
    Requantization,
    is_byte,
    is_unsigned,
    point,
    refuse_shifts,
    refuse_types,
    relu_bounds,
)
from tpuc_c.text import fields, integer, number

LIBRARY = ("tpuc_windows.h",)


@TABLE.runs(tpu.Pool2D)
class PoolKernel(FunctionKernel[tpu.Pool2D]):
    """Pools with channels in the innermost loop."""

    def refuse(self, node: Node[tpu.Pool2D]) -> str | None:
        op, x = node.op, node.operand_types[0]
        if x.rank not in (3, 4):
            return f"3 or 4 dimensions, this one has {x.rank}"
        if is_integer(x) and not (is_byte(x) and is_byte(node.result_type)):
            return f"only integers of 8 bits, this one has {x.storage}"
        return refuse_types(node) or refuse_shifts((op.rshift,))

    def routine(self, call: FunctionNode[tpu.Pool2D]) -> Routine:
        op, type, result = call.op, call.node.operand_types[0], call.node.result_type
        window = f"const tpuc_window window = {{{fields(_members(call))}}};\n"
        channels = result.dims[1]
        if not is_integer(type):
            low, high = relu_bounds(op.do_relu, op.relu_limit)
            if op.pool_mode == "Max":
                return Routine(f"{window}tpuc_maxima_float(&window, x0, y0, {low}, {high});\n", (), (), LIBRARY)
            fill = op.pad_value if op.count_include_pad else 0
            padding = f"{number(fill)}, {int(op.count_include_pad)}"
            call_text = f"tpuc_averages_float(&window, x0, y0, {padding}, {low}, {high}, s0);\n"
            return Routine(window + call_text, (), (WorkingMemory("sums", "float", channels * 4),), LIBRARY)
        bounds = integer_bounds(result, op.do_relu, op.relu_limit)
        low, high = map(integer, bounds)
        if op.pool_mode == "Max":
            name = "tpuc_maxima_uint8" if is_unsigned(type) else "tpuc_maxima_int8"
            return Routine(f"{window}{name}(&window, x0, y0, {low}, {high});\n", (), (), LIBRARY)
        operands = Operands(call)
        scales = () if op.scale is None else (op.scale,)
        shifts = () if scales else (op.rshift,)
        sums = Requantization(
            np.zeros(1, np.int32), (op.multiplier,), shifts, "MultiplierShift", scales, op.round_mode, 0, *bounds,
            op.offset or 0.0,
        )  # fmt: skip
        out = sums.text(operands)
        arguments = f"(const uint8_t*)x0, (uint8_t*)y0, {point(type)}, {int(is_unsigned(type))}, s0"
        body = f"{window}{out}tpuc_averages_int8(&window, &out, {arguments});\n"
        scratch = WorkingMemory("sums", "int32_t", channels * 4)
        return Routine(body, tuple(operands.constants), (scratch,), LIBRARY)


def _members(call: FunctionNode[tpu.Pool2D]) -> dict[str, int]:
    window, x, y = call.op.window(), call.operand(0), call.result
    dims, strides = x.dims, x.strides
    out, steps = y.dims, y.strides
    if len(dims) == 3:
        dims, strides = (*dims[:2], 1, dims[2]), (*strides[:2], 0, strides[2])
    if len(out) == 3:
        out, steps = (*out[:2], 1, out[2]), (*steps[:2], 0, steps[2])
    if len(out) == 2:
        out, steps = (*out, 1, 1), (*steps, 0, 0)
    (n, c, h, w), (xn, xc, xh, xw) = dims, strides
    _, _, oh, ow = out
    yn, yc, yh, yw = steps
    (kh, kw), (sh, sw), (top, left, bottom, right) = window.kernel, window.strides, window.pads
    return {
        "batch": n,
        "in_h": h,
        "in_w": w,
        "channels": c,
        "x_n": xn,
        "x_h": xh,
        "x_w": xw,
        "x_c": xc,
        "out_h": oh,
        "out_w": ow,
        "y_n": yn,
        "y_h": yh,
        "y_w": yw,
        "y_c": yc,
        "kernel_h": kh,
        "kernel_w": kw,
        "stride_h": sh,
        "stride_w": sw,
        "pad_h": top,
        "pad_w": left,
        "end_h": h + bottom,
        "end_w": w + right,
    }
