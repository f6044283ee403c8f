"""Convolutions and matrix products with constant filters, by one library function for bytes and one for floats."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tpuc.api import FunctionKernel, FunctionNode, Node, Routine, TensorType, Unsupported, WorkingMemory
from tpuc_ops import tpu
from tpuc_ops.integers import is_integer
from tpuc_ops.shapes import is_absent

from tpuc_c.kernels import TABLE
from tpuc_c.kernels.common import (
    Array,
    Operands,
    Requantization,
    has_computed_bias,
    is_byte,
    is_unsigned,
    point,
    refuse_requantization,
    refuse_types,
    relu_bounds,
)
from tpuc_c.kernels.general_products import general_product
from tpuc_c.kernels.sums import check_reach, constant_bias, greatest_sum, requantized
from tpuc_c.text import fields, row_strides

PANEL_SHARE = 16
PANEL_BYTES = 1024
"""Windows gathered at a time take 1/`PANEL_SHARE` of the operator's input and output, or this many bytes if that
is more.
"""
MOST_PIXELS = 16
"""The library's `TPUC_PIXELS`: the number of windows for which filters are widened once."""
LIBRARY = ("tpuc_products.h", "tpuc_arm.h", "tpuc_x86.h")
FILTERS, FLOAT_FILTERS, PIXELS, FLOAT_PIXELS, DEPTH = 4, 8, 2, 4, 8
"""Block sizes of the library's inner products: filters, windows, and elements of a filter."""
WIDENED = 128
"""Filter elements that the library widens to 16 bits at a time (`TPUC_DEPTH`)."""


@dataclass(frozen=True)
class Product:
    """Windows over images as the library sees them; a matrix product has windows of one pixel."""

    source: Mapping[str, int]
    target: Mapping[str, int]
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int] = (0, 0)
    dilations: tuple[int, int] = (1, 1)
    groups: int = 1

    @property
    def depth(self) -> int:
        """Elements per filter."""
        return self.source["in_c"] // self.groups * math.prod(self.kernel)

    @property
    def filters(self) -> int:
        """Filters per group."""
        return self.target["out_c"] // self.groups

    @property
    def is_depthwise(self) -> bool:
        """True when each channel has its own filter."""
        return self.groups > 1 and self.source["in_c"] == self.target["out_c"] == self.groups

    @property
    def is_applied_in_place(self) -> bool:
        """True for depthwise filters on channels-last rows, which are applied without gathering windows."""
        return self.is_depthwise and self.source["x_c"] == 1

    def pixels(self, depth: int, item_bytes: int, several: int) -> int:
        """Number of windows to gather at a time, for rows of `depth` elements."""
        area = self.target["out_h"] * self.target["out_w"]
        values = self.source["in_h"] * self.source["in_w"] * self.source["in_c"] + area * self.target["out_c"]
        panel = max(values * item_bytes // 2 // PANEL_SHARE, PANEL_BYTES)
        room = max(panel // (depth * item_bytes) // several * several, several)
        return max(min(room, MOST_PIXELS, area), 1)

    def members(self) -> dict[str, object]:
        """Members of the library's struct."""
        pairs = {"kernel": self.kernel, "stride": self.strides, "pad": self.pads, "dilation": self.dilations}
        both = {f"{name}_{axis}": pair[index] for name, pair in pairs.items() for index, axis in enumerate("hw")}
        return {**self.source, **self.target, **both, "groups": self.groups}


def product_of(call: FunctionNode[tpu.Conv2D]) -> Product:
    """The product for a convolution."""
    op, x, y = call.op, call.operand(0), call.result
    window = op.window()
    dims, strides = x.dims, x.strides
    out, steps = y.dims, y.strides
    if len(dims) == 3:  # one row
        dims, strides = (*dims[:2], 1, dims[2]), (*strides[:2], 0, strides[2])
        out, steps = (*out[:2], 1, out[2]), (*steps[:2], 0, steps[2])
    return Product(
        _source(dims, strides),
        _target(out, steps),
        (window.kernel[0], window.kernel[1]),
        (window.strides[0], window.strides[1]),
        (window.pads[0], window.pads[1]),
        (window.dilations[0], window.dilations[1]),
        op.group,
    )


def _source(dims: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, int]:
    n, c, h, w = dims
    xn, xc, xh, xw = strides
    return {"batch": n, "in_h": h, "in_w": w, "in_c": c, "x_n": xn, "x_h": xh, "x_w": xw, "x_c": xc}


def _target(dims: tuple[int, ...], strides: tuple[int, ...]) -> dict[str, int]:
    _, c, h, w = dims
    yn, yc, yh, yw = strides
    return {"out_h": h, "out_w": w, "out_c": c, "y_n": yn, "y_h": yh, "y_w": yw, "y_c": yc}


def padded_filters(filters: Array, groups: int, several: int, depth: int) -> Array:
    """Pad filters `[oc, k]` with zeros to `[group, filters rounded up, depth]`."""
    count = filters.shape[0] // groups
    result = np.zeros((groups, -(-count // several) * several, depth), filters.dtype)
    result[:, :count, : filters.shape[1]] = filters.reshape(groups, count, -1)
    return result


def interleaved(filters: Array) -> Array:
    """Reorder `[group, filters, depth]` to `[group, filters / 4, depth / 8, 4 filters, 8]`, the block that one
    instruction multiplies.
    """
    groups, count, depth = filters.shape
    blocks = filters.reshape(groups, count // FILTERS, FILTERS, depth // DEPTH, DEPTH)
    return np.ascontiguousarray(blocks.swapaxes(2, 3))


def integer_routine(product: Product, filters: Array, fill: int, unsigned: bool, sums: Requantization) -> Routine:
    """The routine of an integer product; `filters: [oc, k]` are in the order row, column, channel."""
    operands = Operands(_NO_CALL)
    members = product.members() | {
        "fill": fill,
        "x_unsigned": int(unsigned),
        "y_bytes": 1 if sums.shifts or sums.scales else 4,
    }
    out = sums.text(operands)
    if product.is_applied_in_place:
        taps = -(-product.depth // 3) * 3
        rows = np.zeros((taps, filters.shape[0]), np.int16)
        rows[: product.depth] = filters.T
        scratch = (
            WorkingMemory("border", "uint8_t", filters.shape[0]),
            WorkingMemory("taps", "const uint8_t*", taps * 8),
        )
        call = f"tpuc_depthwise_int8(&conv, &out, (const uint8_t*)x0, {operands.add(rows)}, y0, s0, s1);\n"
        conv = f"const tpuc_conv conv = {{{fields(members)}}};\n"
        return Routine(out + conv + call, tuple(operands.constants), scratch, LIBRARY)
    depth = -(-product.depth // DEPTH) * DEPTH
    offset = 0 if filters.min() >= -128 and filters.max() <= 127 else int(filters.min()) + 128
    packed = interleaved(padded_filters((filters - offset).astype(np.int8), product.groups, FILTERS, depth))
    pixels = product.pixels(depth, 2, PIXELS)
    members |= {"depth": depth, "pixels": pixels, "filter_offset": offset}
    scratch = (
        WorkingMemory("windows", "int16_t", pixels * depth * 2),
        WorkingMemory("filters", "int16_t", FILTERS * min(depth, WIDENED) * 2),
    )
    call = f"tpuc_conv_int8(&conv, &out, (const uint8_t*)x0, {operands.add(packed)}, y0, s0, s1);\n"
    conv = f"const tpuc_conv conv = {{{fields(members)}}};\n"
    return Routine(out + conv + call, tuple(operands.constants), scratch, LIBRARY)


_NO_CALL: FunctionNode[Any] = FunctionNode(Node(tpu.Relu(), (), ()), (), (), ())
"""Placeholder call for collecting constants only."""


def float_routine(product: Product, filters: Array, bias: Array | None, do_relu: bool, limit: float) -> Routine:
    """The routine of a float product; `filters: [oc, k]` are in the order row, column, channel; `bias` is None where it
    is computed.
    """
    low, high = relu_bounds(do_relu, limit)
    members = product.members() | {"low": low, "high": high}
    filters = filters.astype(np.float32)
    if product.is_depthwise:
        packed, name = np.ascontiguousarray(filters.T), "tpuc_depthwise_float"
        members["pixels"] = 1
        scratch = WorkingMemory("sums", "float", filters.shape[0] * 4)
    else:
        groups, depth = product.groups, product.depth
        packed = padded_filters(filters, groups, FLOAT_FILTERS, depth)
        packed = np.ascontiguousarray(packed.reshape(groups, -1, FLOAT_FILTERS, depth).swapaxes(2, 3))
        name, members["pixels"] = "tpuc_conv_float", product.pixels(depth, 4, FLOAT_PIXELS)
        scratch = WorkingMemory("windows", "float", product.pixels(depth, 4, FLOAT_PIXELS) * depth * 4)
    conv = f"const tpuc_float_conv conv = {{{fields(members)}}};\n"
    body = f"{conv}{name}(&conv, x0, k0, {'x2' if bias is None else 'k1'}, y0, s0);\n"
    constants = (packed,) if bias is None else (packed, bias.astype(np.float32))
    return Routine(body, constants, (scratch,), ("tpuc_float_products.h",))


@TABLE.runs(tpu.Conv2D)
class ConvKernel(FunctionKernel[tpu.Conv2D]):
    """Gathers windows into rows and multiplies them by filters (im2col); depthwise filters are applied in place."""

    def refuse(self, node: Node[tpu.Conv2D]) -> str | None:
        op, (x, filters, *rest), result = node.op, node.operand_types, node.result_type
        if x.rank not in (3, 4):
            return f"3 or 4 dimensions, this one has {x.rank}"
        if op.inserts:
            return "no zeros between rows"
        if is_integer(x) and not is_byte(x):
            return f"only integers of 8 bits, this one has {x.storage}"
        if is_integer(x) and filters.storage.bits > 16:
            return f"only filters of 8 or 16 bits, this one has {filters.storage}"
        if rest and not is_absent(rest[0]) and rest[0].size not in (1, result.dims[1]):
            return "one bias per channel"
        return refuse_types(node) or refuse_requantization(op.multiplier, op.rshift, op.quant_mode, op.scales, result)

    def routine(self, call: FunctionNode[tpu.Conv2D]) -> Routine:
        op, product = call.op, product_of(call)
        weights = call.array(1)
        assert weights is not None, "filters are constant"
        count = product.target["out_c"]
        filters = np.moveaxis(weights.reshape(count, -1, *product.kernel), 1, -1).reshape(count, -1)
        if not is_integer(call.node.operand_types[0]):
            added = None if has_computed_bias(call, count) else constant_bias(call, count, np.float32)
            return float_routine(product, filters, added, op.do_relu, op.relu_limit)
        type = call.node.operand_types[0]
        sums = requantized(call, (op.multiplier, op.rshift, op.quant_mode, op.scales, op.round_mode), count)
        filters = filters.astype(np.int32) - op.kernel_zp
        check_reach(call, greatest_sum(filters, sums.bias, _magnitude(type)))
        check_span(call, product, filters)
        return integer_routine(product, filters, point(type), is_unsigned(type), sums)


def check_span(call: FunctionNode[Any], product: Product, filters: Array) -> None:
    """Raise Unsupported for filters whose range exceeds 8 bits. Depthwise filters applied in place have 16 bits."""
    span = int(filters.max(initial=0)) - int(filters.min(initial=0))
    if span > 255 and not product.is_applied_in_place:
        raise Unsupported(
            f"node '{call.node.name}': {call.op.name} on c: its filters span {span} steps, more than 8 bits hold; "
            "quantize it with 8-bit weights"
        )


def _magnitude(type: TensorType) -> int:
    """Largest magnitude of a byte."""
    return 255 if is_unsigned(type) else 128


def _images(dims: tuple[int, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """View rows of any rank as batch, channel, row and column; the last dimension holds the channels."""
    if len(dims) > 4:
        dims, strides = (math.prod(dims[:-3]), *dims[-3:]), strides[-4:]
    missing = 4 - len(dims)
    n, h, w, c = (*(1,) * missing, *dims)
    xn, xh, xw, xc = (*(0,) * missing, *strides)
    return (n, c, h, w), (xn, xc, xh, xw)


@TABLE.runs(tpu.MatMul)
class MatMulKernel(FunctionKernel[tpu.MatMul]):
    """Multiplies rows by the columns of a constant matrix, like windows of one pixel by filters. Other products are
    computed row by row.
    """

    def refuse(self, node: Node[tpu.MatMul]) -> str | None:
        op, (left, right), result = node.op, node.operand_types[:2], node.result_type
        if is_integer(left) and not (is_byte(left) and is_byte(right)):
            return f"only integers of 8 bits, this one has {left.storage}"
        return refuse_types(node) or refuse_requantization(op.multipliers, op.rshifts, op.quant_mode, op.scales, result)

    def routine(self, call: FunctionNode[tpu.MatMul]) -> Routine:
        op = call.op
        right = call.array(1)
        if (
            right is None
            or right.ndim != 2
            or has_computed_bias(call)
            or op.left_transpose
            or op.output_transpose
            or op.input_zp
        ):
            return general_product(call)
        filters = right if op.right_transpose else right.T
        count = filters.shape[0]
        left, shape = call.operand(0), (*call.operand(0).dims[:-1], count)
        steps = call.result.strides if call.result.dims == shape else row_strides(shape)
        product = Product(_source(*_images(left.dims, left.strides)), _target(*_images(shape, steps)), (1, 1))
        if not is_integer(call.node.operand_types[0]):
            return float_routine(product, filters, constant_bias(call, count, np.float32), op.do_relu, op.relu_limit)
        type = call.node.operand_types[0]
        sums = requantized(call, (op.multipliers, op.rshifts, op.quant_mode, op.scales, op.round_mode), count)
        filters = filters.astype(np.int32) - op.right_zp
        check_reach(call, greatest_sum(filters, sums.bias, _magnitude(type)))
        return integer_routine(product, filters, 0, is_unsigned(type), sums)
