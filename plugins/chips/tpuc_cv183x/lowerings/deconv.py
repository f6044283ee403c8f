"""Transposed convolution with constant filters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from tpuc.api import Lowering, LoweringBuilder, LoweringNode, Value
from tpuc_ops.top.deconv import Deconv
from tpuc_ops.tpu.deconv import Deconv as TpuDeconv

from tpuc_cv183x.lowerings.common import Array, as_bf16
from tpuc_cv183x.lowerings.lines import over_lines
from tpuc_cv183x.lowerings.qdm import quantise_qdm
from tpuc_cv183x.lowerings.table import TABLE


def _plain_groups(op: Deconv, filters: Array) -> tuple[Array, int]:
    """One filter per channel as it is; other groups as one group whose filters are zero outside their own part."""
    groups, (outputs, channels) = op.group, filters.shape[:2]
    if groups == 1 or (outputs, channels) == (1, groups):
        return filters, groups
    whole = np.zeros((groups, outputs, *filters.shape[1:]), filters.dtype)
    depth = channels // groups
    for group in range(groups):
        part = slice(group * depth, (group + 1) * depth)
        whole[group, :, part] = filters[:, part]
    return whole.reshape(groups * outputs, *filters.shape[1:]), 1


def _near(op: Deconv, filters: Array) -> tuple[Deconv, Array]:
    """The op with a window of at least the stride and padding of at least the output padding, by zeros in the filter
    behind which as much is cut off.
    """
    window = op.window()
    extra = tuple(op.output_padding or (0, 0))
    added, pads = [0, 0], list(op.pads)
    for axis in (0, 1):
        extent, step = window.extents[axis], window.dilations[axis]
        missing = max(window.strides[axis] - extent, extra[axis] - pads[axis + 2], 0)
        added[axis] = -(-missing // step)
        pads[axis + 2] += added[axis] * step
    if not any(added):
        return op, filters
    kernel = (op.kernel_shape[0] + added[0], op.kernel_shape[1] + added[1])
    wide = np.zeros((*filters.shape[:2], *kernel), filters.dtype)
    wide[:, :, : op.kernel_shape[0], : op.kernel_shape[1]] = filters
    return dataclasses.replace(op, kernel_shape=kernel, pads=tuple(pads)), wide


def _deconv(op: Deconv, group: int, *, with_bias: bool) -> TpuDeconv:
    return TpuDeconv(
        kernel_shape=op.kernel_shape,
        strides=op.strides,
        pads=op.pads,
        group=group,
        dilations=op.dilations,
        output_padding=op.output_padding,
        do_relu=op.do_relu,
        relu_limit=op.relu_limit,
        with_bias=with_bias,
    )


def _refusal(node: LoweringNode) -> str | None:
    if node.constants[1] is None:
        return "the filter must be a constant"
    if len(node.op.kernel_shape) != 2:
        return f"only 2-D windows, this one has {len(node.op.kernel_shape)} dimensions"
    return None


@TABLE.lowers(Deconv, "bf16")
@over_lines
class DeconvBf16(Lowering[Deconv]):
    """The same on bf16; the bias stays float32, as the chip adds it."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        constant, bias = node.constants[1:3]
        assert constant is not None
        near, constant = _near(node.op, constant)
        filters, group = _plain_groups(near, constant)
        op = _deconv(near, group, with_bias=bias is not None)
        operands = [node.operands[0], build.weight("filter_bf16", as_bf16(filters), "bf16"), node.operands[2]]
        return [build(op, operands, node.float_result_type())]


@TABLE.lowers(Deconv, "int8")
@over_lines
class DeconvInt8(Lowering[Deconv]):
    """Filters per output channel, as those of the convolution."""

    def refuse(self, node: LoweringNode) -> str | None:
        return _refusal(node)

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        constant, bias = node.constants[1:3]
        assert constant is not None
        near, constant = _near(node.op, constant)
        filters, group = _plain_groups(near, constant)
        result = node.quantised_result_type()
        # One group: output channels come first. One filter per channel: channels are the second dimension.
        rows = filters if group == 1 else filters.swapaxes(0, 1)
        product = quantise_qdm(rows, bias, node.operands[0].tensor.uniform, result.uniform)
        stored = product.filters if group == 1 else product.filters.swapaxes(0, 1)
        operands = [node.operands[0], build.weight("filter_i8", np.ascontiguousarray(stored), "si8"), build.none()]
        if product.bias is not None:
            operands[2] = build.weight("bias_i32", product.bias.reshape(1, -1, 1, 1))
        op = dataclasses.replace(
            _deconv(near, group, with_bias=product.bias is not None),
            multiplier=product.multipliers,
            rshift=product.right_shifts,
            quant_mode="QDM",
            round_mode="HalfAwayFromZero",
        )
        return [build(op, operands, result)]
