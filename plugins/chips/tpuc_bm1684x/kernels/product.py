"""Convolution and matrix product: output channels across lanes, partial sums over input channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tpuc.api import (
    ABSENT,
    Axis,
    Layouts,
    LocalTensor,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Space,
    Tile,
    View,
    as_stored,
)
from tpuc_chip_parts import tiles
from tpuc_chip_parts.tiles import ProductSpace, RowsFilter, WindowKernel, tile_shape
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.integers import zero_point
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, Conv, DType, Layout, Operand, Requantize, RequantizeOp, Scalar
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.common import OfChip, window_refusal
from tpuc_bm1684x.kernels.packing import (
    float_records,
    pack_filter,
    record_alignment,
    record_bytes,
    record_scratch,
    requantize_records,
    spread_records,
)
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand


@dataclass(frozen=True)
class Product(tiles.Product):
    """A convolution, or a matrix product viewed as a 1×1 convolution of rows."""

    rounding: Rounding = Rounding.HALF_UP

    @property
    def requantization_op(self) -> RequantizeOp:
        """The command that requantizes sums to bytes."""
        return RequantizeOp.FLOAT_REQUANTIZE if self.scales else RequantizeOp.REQUANTIZE

    def records(self, channels: tuple[int, int], zero_point: int, target: Target) -> Array:
        """Its parameters for a range of output channels, by lane. With float scales, the zero point is added after
        rounding: added to a half before, it could round to another float.
        """
        if self.scales:
            return float_records(self.factors(channels), 0.0, target)
        return requantize_records(*self.requantization(channels), zero_point, target)

    def fuses(self, node: Node, target: Target) -> bool:
        """True where a command can requantize its sums: by integer multipliers."""
        return target.has_registers and self.requantizes and not self.scales and node.result_type.storage.bits <= 16

    def fusion(self, placed: PlacedTile, offset: int = 0) -> dict[str, Any]:
        """Attributes of a command that requantizes its sums; none where a tile has a buffer for them. `offset`: of the
        first channel's record.
        """
        if not self.requantizes or "sum" in placed.scratch:
            return {}
        table = placed.constants["requantize"].address + offset
        return {"requantizes": True, "table": table, "rounding": self.rounding}

    def requantize_scratch(self, node: Node, tile: Tile, target: Target) -> Sequence[Scratch]:
        """Scratch buffers of `requantize`: the records, and the whole numbers to which a zero point is added."""
        records = record_scratch(tile.size("c"), target)
        if not (self.scales and zero_point(node.result_type)):
            return records
        return (*records, Scratch("whole", Bm1684xLmem(target).tensor_bytes("aligned", tile_shape(tile), 2)))

    def requantize(self, node: Node, placed: PlacedTile, sums: Operand, asm: Bm1684xAssembler) -> None:
        """Requantize int32 sums to the result."""
        shape, result = placed.result.shape, operand(placed.result)
        whole = Operand(placed.scratch["whole"].address, DType.INT16) if "whole" in placed.scratch else result
        asm.record(
            Requantize(
                operation=self.requantization_op,
                shape=shape,
                result=whole,
                input=sums,
                table=spread_records(placed, asm),
                rounding=self.rounding,
            )
        )
        if whole is result:
            return
        # There is no field for the result's sign: the sum of a signed operand is signed.
        total = result if result.dtype.signed else whole
        point = Scalar.of(zero_point(node.result_type), DType.INT16)
        asm.record(Arithmetic(operation=ArithmeticOp.ADD_SATURATE, shape=shape, result=total, left=whole, right=point))
        if total is whole:
            asm.record(Arithmetic(operation=ArithmeticOp.CAST, shape=shape, result=result, left=whole))


class ProductKernel(OfChip, WindowKernel[Bm1684xAssembler]):
    """Base of convolution and matrix product.

    Integers: convolve to int32, add the bias, requantize by the per-channel table. Floats: convolve with an f32 bias.
    Partial sums of 16-bit floats are f32, because the chip accumulates in f32.
    """

    def product(self, node: Node) -> Product:
        """The node as a convolution."""
        raise NotImplementedError

    def space(self, node: Node) -> Space:
        product = self.product(node)
        operands: list[View | None] = [None] * len(node.operand_types)
        operands[0] = product.input
        channels = product.input.shape[1]
        reduction = Axis("k", channels, reduction=True, granularity=self._packing(node), limit=MAX_EXTENT)
        limits = self.lanes.window_limits(product.extent, product.strides)
        axes = (*self.lanes.parallel_axes(product.output.shape, "cnhw", limits=limits), reduction)
        return ProductSpace(axes, tuple(operands), (product.output,), product)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",), frozenset({0}))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        product = self.product(node)
        names = [PackedConstant("filter", ("c", "k"))]
        if product.has_bias:
            names.append(PackedConstant("bias", ("c",), alignment=4))
        if product.requantizes:
            names.append(PackedConstant("requantize", ("c",), alignment=record_alignment(self.target)))
        return names

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        lanes, slots = min(channels, self.lanes.count), self.lanes.slots_of(channels)
        if name == "bias":
            return lanes, slots * 4
        if name == "requantize":
            return lanes, slots * record_bytes(self.target)
        taps = self.product(node).kernel[0] * self.product(node).kernel[1]
        depth = round_up(tile.size("k"), self._packing(node))
        return lanes, slots * depth * taps * (node.operand_types[0].storage.bits // 8)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        product = self.product(node)
        c0, c1 = tile.range("c")
        if name == "requantize":
            return product.records((c0, c1), zero_point(node.result_type), self.target)
        if name == "bias":
            return self.lanes.by_lane(self.bias_rows(node, tile, arrays))
        k0, k1 = self.filter_range(node, tile)
        return pack_filter(self.filter_array(node, arrays)[c0:c1, k0:k1], self._packing(node), self.target)

    def bias_rows(self, node: Node, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        """The bias of each output channel of a tile, `[channels, 1]`."""
        assert arrays[2] is not None
        kind = np.int32 if self._integer(node) else np.float32
        return as_stored(arrays[2], node.operand_types[2]).reshape(-1, 1)[slice(*tile.range("c"))].astype(kind)

    def filter_range(self, node: Node, tile: Tile) -> tuple[int, int]:
        """First and end of the filters' input channels that a tile needs."""
        return tile.range("k")

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        if not self.product(node).requantizes and not self._has_wide_sums(node, tile):
            return ()
        if self._fuses(node, tile):
            return ()
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        size = self.lmem.tensor_bytes("aligned", shape, 4)
        buffers = [Scratch("sum", size)]
        if self._adds_bias(node):
            buffers.append(Scratch("biased", size))  # adding in place takes twice as long
        if self.product(node).requantizes:
            buffers += self.product(node).requantize_scratch(node, tile, self.target)
        return buffers

    def _fuses(self, node: Node, tile: Tile) -> bool:
        """True when the command that adds also requantizes."""
        product = self.product(node)
        return product.fuses(node, self.target) and not self._is_part(node, tile)

    def _is_part(self, node: Node, tile: Tile) -> bool:
        """True when a tile has some of the products of its sums."""
        return self.filter_range(node, tile) != (0, self.product(node).input.shape[1])

    def _has_wide_sums(self, node: Node, tile: Tile) -> bool:
        """True when partial sums do not fit the result's type."""
        return self._is_part(node, tile) and node.result_type.storage.name in ("f16", "bf16")

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        product = self.product(node)
        integer = self._integer(node)
        result = placed.result
        target = operand(result)
        if "sum" in placed.scratch:
            target = Operand(placed.scratch["sum"].address, DType.INT32 if integer else DType.F32)
        self.emit_sum(node, product, placed, target, phase, asm)
        if not phase.ends:
            return
        bias = placed.constants.get("bias")
        if self._adds_bias(node) and bias:
            row = Operand(bias.address, DType.INT32, (0, 1, 0, 0))
            total = Operand(placed.scratch["biased"].address, DType.INT32) if "biased" in placed.scratch else target
            asm.record(
                Arithmetic(
                    operation=ArithmeticOp.ADD_SATURATE, shape=result.shape, result=total, left=target, right=row
                )
            )
            target = total
        if product.requantizes:
            if "sum" in placed.scratch:
                product.requantize(node, placed, target, asm)
        elif target.dtype is not operand(result).dtype:
            asm.record(Arithmetic(operation=ArithmeticOp.CAST, shape=result.shape, result=operand(result), left=target))
        self.activate(node, result, asm)

    def activate(self, node: Node, result: LocalTensor, asm: Bm1684xAssembler) -> None:
        """Record the relu of an op that has one."""
        emit_relu(node, result, asm)

    def emit_sum(
        self, node: Node, product: Product, placed: PlacedTile, target: Operand, phase: Phase, asm: Bm1684xAssembler
    ) -> None:
        """Record the sums of products, including the bias of floats."""
        x, result = placed.operand(0), placed.result
        bias = placed.constants.get("bias")
        has_bias = bias is not None and not self._adds_bias(node) and phase.starts
        asm.record(
            Conv(
                result=target,
                result_shape=result.shape,
                input=operand(x),
                input_shape=x.shape[1:],
                weight=Operand(
                    placed.constants["filter"].address,
                    self.filter_type(node),
                    Layout.COMPACT,
                ),
                kernel=product.kernel,
                stride=product.strides,
                pads=x.padding,
                dilation=product.dilations,
                insert=product.inserts,
                bias=Operand(bias.address, self._bias_type(node), Layout.COMPACT) if bias and has_bias else None,
                pad_value=padding_value(node, x.padding),
                kernel_zero_point=kernel_point(node),
                accumulate=not phase.starts,
                **product.fusion(placed),
            )
        )

    def filter_type(self, node: Node) -> DType:
        """The type of the filter in local memory."""
        return dtype_of(node.operand_types[1].storage)

    def _integer(self, node: Node) -> bool:
        return not node.operand_types[0].storage.is_float

    def _adds_bias(self, node: Node) -> bool:
        """True when a command of its own adds the bias to the sums."""
        return self._integer(node) and self.product(node).has_bias and not self.target.has_registers

    def _bias_type(self, node: Node) -> DType:
        return DType.INT32 if self._integer(node) else DType.F32

    def _packing(self, node: Node) -> int:
        return self.target.packing[node.operand_types[0].storage.bits // 8]


def padding_value(node: Node, padding: Sequence[int]) -> Scalar | None:
    """The padding value of a window: the zero point; None where it is 0 or there is no padding."""
    point = zero_point(node.operand_types[0])
    return Scalar.of(point, dtype_of(node.operand_types[0].storage)) if point and any(padding) else None


def kernel_point(node: Node) -> Scalar | None:
    """The zero point of the filter, None where it is 0."""
    point = node.op.right_zp if isinstance(node.op, tpu.MatMul) else getattr(node.op, "kernel_zp", 0)
    return Scalar.of(point, DType.INT8.with_sign(not _is_unsigned(node))) if point else None


def _is_unsigned(node: Node) -> bool:
    return node.operand_types[1].storage.name.startswith("u")


def convolution_refusal(node: Node[tpu.Conv2D]) -> str | None:
    """The refusal common to all convolutions, None if the node is supported."""
    op = node.op
    if any(op.inserts or ()):
        return "zeros between rows have no kernel"
    if op.multiplier and op.quant_mode != "MultiplierShift":
        return f"only quant_mode MultiplierShift, this one is {op.quant_mode}"
    return window_refusal(op.window())


class ConvKernel(ProductKernel):
    """Convolution without groups."""

    def refuse(self, node: Node) -> str | None:
        return convolution_refusal(node)

    def product(self, node: Node) -> Product:
        return Product.of_convolution(node, rounding=Rounding(node.op.round_mode))


class MatMulKernel(RowsFilter, ProductKernel):
    """Rows times a constant matrix; each row is one pixel of a 1×1 convolution."""

    def refuse(self, node: Node) -> str | None:
        if node.op.left_transpose or node.op.output_transpose:
            return "left_transpose and output_transpose are not supported"
        return None

    def product(self, node: Node[tpu.MatMul]) -> Product:
        depth, width = node.operand_types[0].dims[-1], node.result_type.dims[-1]
        rows = node.operand_types[0].size // depth
        return Product(
            View((rows, depth, 1, 1)),
            View((rows, width, 1, 1)),
            has_bias=node.operand_types[2] is not ABSENT,
            multipliers=node.op.multipliers,
            right_shifts=node.op.rshifts,
            scales=node.op.scales,
            rounding=Rounding(node.op.round_mode),
        )

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        """Matrix columns are tiled along c, or along h where rows are distributed over the lanes."""
        return [replace(constant, axes=(*constant.axes, "h")) for constant in super().constants(node)]
