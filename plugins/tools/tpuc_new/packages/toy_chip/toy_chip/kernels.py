"""TPU op → commands. The scheduler loads, stores and places; a kernel says what a tile needs and how to compute it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import (
    Axis,
    Box,
    KernelTable,
    Layouts,
    LocalTensor,
    Move,
    MoveKernel,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
    elementwise_view,
    window,
)
from tpuc_ops import tpu
from tpuc_ops.integers import clamped, is_integer, zero_point

from toy_chip import isa
from toy_chip.assembler import ToyAssembler, operand
from toy_chip.lmem import ToyLmem
from toy_chip.machine import Array
from toy_chip.operands import LANES, DType, Four, Operand, Window

TABLE = KernelTable("toy", "tpu")
LMEM = ToyLmem()


# What several kernels share


def parallel_axes(shape: Shape4, order: str = "nchw") -> tuple[Axis, ...]:
    """One axis per dimension of a result, the outermost loop first; channels are cut into whole rounds of lanes."""
    return tuple(Axis(name, shape["nchw".index(name)], granularity=LANES if name == "c" else 1) for name in order)


def elementwise_space(node: Node) -> Space:
    """Operands aligned at the last dimension, as broadcasting does."""
    dims = node.result_type.dims
    operands = [elementwise_view((1,) * (len(dims) - type.rank) + type.dims) for type in node.operand_types]
    result = elementwise_view(dims)
    return Space(parallel_axes(result), tuple(View(shape) for shape in operands), (View(result),))


def integers_only(node: Node, operands: int = 1) -> str | None:
    """The refusal of everything but symmetric 8-bit values."""
    for type in (*node.operand_types[:operands], node.result_type):
        if not is_integer(type):
            return f"only int8 and uint8, this one has {type.storage}"
        if zero_point(type):
            return f"only zero point 0, this one has {zero_point(type)}"
    return None


def window_box(tile: Tile, source: Shape4, channels: tuple[int, int], sliding: Window) -> Box:
    """The part of `source` that a tile reads through a sliding window, and the padding left at its border."""
    n0, n1 = tile.range("n")
    (eh, ew), (sh, sw) = sliding.extents, sliding.strides
    top0, bottom0, top, bottom = window(*tile.range("h"), sh, eh, sliding.pads[0], source[2])
    left0, right0, left, right = window(*tile.range("w"), sw, ew, sliding.pads[1], source[3])
    c0, c1 = channels
    shape = (n1 - n0, c1 - c0, bottom0 - top0, right0 - left0)
    return Box((n0, c0, top0, left0), shape, (top, left, bottom, right))


def clamp_bounds(node: Node, do_relu: bool, limit: float) -> tuple[int, int]:
    """The smallest and largest integer that the result may hold."""
    extremes = np.array([-(1 << 31), (1 << 31) - 1])
    low, high = clamped(extremes, node.result_type, do_relu, limit)
    return int(low), int(high)


def emit_relu(node: Node, result: LocalTensor, asm: ToyAssembler) -> None:
    """The relu of an op that has one fused; storing in the result's type may have done it already."""
    low, high = clamp_bounds(node, node.op.do_relu, node.op.relu_limit)
    if (low, high) != clamp_bounds(node, False, -1.0):
        asm.record(isa.Clamp(operand(result), operand(result), low, high))


def by_lane(rows: Array) -> Array:
    """One row per channel → bytes per lane `[lanes, slots * row bytes]`: channel c in lane c mod 8, slot c div 8."""
    data = np.ascontiguousarray(rows).view(np.uint8).reshape(rows.shape[0], -1)
    slots = -(-data.shape[0] // LANES)
    padded = np.zeros((slots * LANES, data.shape[1]), np.uint8)
    padded[: data.shape[0]] = data
    lanes = padded.reshape(slots, LANES, -1).swapaxes(0, 1).reshape(LANES, -1)
    return lanes[: min(data.shape[0], LANES)]


# Convolution and matrix product


class ProductKernel(TileKernel[Any, ToyAssembler]):
    """Base of both: sums in int32 over tiles of input channels, then bias and requantization in one command."""

    def views(self, node: Node) -> tuple[View, View]:
        """Input and result with channels and depth where the convolution wants them."""
        raise NotImplementedError

    def sliding(self, node: Node) -> Window:
        """The sliding window."""
        raise NotImplementedError

    def filters(self, node: Node, array: Array) -> Array:
        """The weight as `[oc, ic, taps]`."""
        raise NotImplementedError

    def factors(self, node: Node) -> tuple[Sequence[int], Sequence[int]]:
        """Multipliers and right shifts: one pair, or one per output channel."""
        raise NotImplementedError

    def refuse(self, node: Node) -> str | None:
        multipliers, _ = self.factors(node)
        if not multipliers:
            return "only products that are requantized to 8 bits, this one has no multiplier"
        if node.op.quant_mode != "MultiplierShift" or node.op.round_mode != "HalfUp":
            return f"only MultiplierShift and HalfUp, this one has {node.op.quant_mode} and {node.op.round_mode}"
        return integers_only(node)

    def space(self, node: Node) -> Space:
        source, result = self.views(node)
        reduction = Axis("k", source.shape[1], reduction=True, granularity=LANES)
        absent = (None,) * (len(node.operand_types) - 1)
        return Space((*parallel_axes(result.shape, "cnhw"), reduction), (source, *absent), (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        box = window_box(tile, self.views(node)[0].shape, tile.range("k"), self.sliding(node))
        return [box, *(None,) * (len(node.operand_types) - 1)]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("filters", ("c", "k")), PackedConstant("parameters", ("c",)))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        channels = tile.size("c")
        row = 3 * 4 if name == "parameters" else tile.size("k") * self.sliding(node).taps
        return min(channels, LANES), -(-channels // LANES) * row

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        (c0, c1), (k0, k1) = tile.range("c"), tile.range("k")
        if name == "filters":
            assert arrays[1] is not None, "the lowering takes constant filters only"
            return by_lane(self.filters(node, arrays[1])[c0:c1, k0:k1])
        bias = arrays[2] if len(arrays) > 2 else None
        parameters = np.zeros((self.views(node)[1].shape[1], 3), np.int32)
        parameters[:, 0] = 0 if bias is None else bias.reshape(-1)
        parameters[:, 1], parameters[:, 2] = self.factors(node)
        return by_lane(parameters[c0:c1])

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        return (Scratch("sums", LMEM.tensor_bytes("aligned", tile_shape(tile), DType.I32.bytes)),)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        x, result, whole = placed.operand(0), placed.result, self.sliding(node)
        sums = Operand(placed.scratch["sums"].address, result.shape, DType.I32)
        sliding = Window(whole.kernel, whole.strides, x.padding, whole.dilations)
        asm.record(isa.Conv(sums, operand(x), placed.constants["filters"].address, sliding, not phase.starts))
        if phase.ends:
            asm.record(isa.Requantize(operand(result), sums, placed.constants["parameters"].address))
            emit_relu(node, result, asm)


def tile_shape(tile: Tile) -> Four:
    """The extents of a tile's result."""
    return (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))


@TABLE.runs(tpu.Conv2D)
class ConvKernel(ProductKernel):
    """Convolution without groups."""

    def refuse(self, node: Node) -> str | None:
        if node.op.group != 1:
            return f"only group 1, this one has {node.op.group}"
        return super().refuse(node)

    def views(self, node: Node) -> tuple[View, View]:
        return View(elementwise_view(node.operand_types[0].dims)), View(elementwise_view(node.result_type.dims))

    def sliding(self, node: Node) -> Window:
        (kh, kw), (sh, sw), (dh, dw) = node.op.kernel_shape, node.op.strides, node.op.dilations
        top, left, bottom, right = node.op.pads
        return Window((kh, kw), (sh, sw), (top, left, bottom, right), (dh, dw))

    def filters(self, node: Node, array: Array) -> Array:
        return array.reshape(*array.shape[:2], -1)

    def factors(self, node: Node) -> tuple[Sequence[int], Sequence[int]]:
        return node.op.multiplier, node.op.rshift


@TABLE.runs(tpu.MatMul)
class MatMulKernel(ProductKernel):
    """Rows times a constant matrix: a 1x1 convolution with the depth across lanes and the rows along h."""

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].rank != 2:
            return f"the right operand must be a matrix, this one has {node.operand_types[1].rank} dimensions"
        if node.op.left_transpose or node.op.output_transpose:
            return "left_transpose and output_transpose are not supported"
        return super().refuse(node)

    def views(self, node: Node) -> tuple[View, View]:
        depth, columns = node.operand_types[0].dims[-1], node.result_type.dims[-1]
        rows = node.operand_types[0].size // depth
        return _rows_along_h(rows, depth), _rows_along_h(rows, columns)

    def sliding(self, node: Node) -> Window:
        return Window((1, 1))

    def filters(self, node: Node, array: Array) -> Array:
        return (array if node.op.right_transpose else array.T)[:, :, None]

    def factors(self, node: Node) -> tuple[Sequence[int], Sequence[int]]:
        return node.op.multipliers, node.op.rshifts


def _rows_along_h(rows: int, columns: int) -> View:
    return View((1, columns, rows, 1), (rows * columns, 1, columns, 1))


# Everything else


class ElementwiseKernel(TileKernel[Any, ToyAssembler]):
    """Base of kernels whose result element needs the operand elements at the same place."""

    def space(self, node: Node) -> Space:
        return elementwise_space(node)

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",))


@TABLE.runs(tpu.Add)
class AddKernel(ElementwiseKernel):
    """Two operands, each with an 8-bit multiplier and a shift."""

    def refuse(self, node: Node) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        if len(node.op.rshifts) != 2:
            return f"one shift per operand, this one has {len(node.op.rshifts)}"
        return integers_only(node, 2)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        left, right = operand(placed.operand(0)), operand(placed.operand(1))
        (m0, m1), (s0, s1) = node.op.multipliers, node.op.rshifts
        asm.record(isa.Add(operand(placed.result), left, right, (m0, m1), (s0, s1)))
        emit_relu(node, placed.result, asm)


@TABLE.runs(tpu.Relu)
class ReluKernel(ElementwiseKernel):
    """Operand and result share scale and type."""

    def refuse(self, node: Node) -> str | None:
        return integers_only(node)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        low, high = clamp_bounds(node, True, node.op.relu_limit)
        asm.record(isa.Clamp(operand(placed.result), operand(placed.operand(0)), low, high))


@TABLE.runs(tpu.Cast)
class CastKernel(ElementwiseKernel):
    """Between f32 and 8-bit integers."""

    def refuse(self, node: Node) -> str | None:
        source, result = node.operand_types[0], node.result_type
        if is_integer(source) == is_integer(result) or "f32" not in (source.storage.name, result.storage.name):
            return f"only between f32 and 8-bit integers, this one goes from {source.storage} to {result.storage}"
        if node.op.round_mode != "HalfAwayFromZero":
            return f"only HalfAwayFromZero, this one has {node.op.round_mode}"
        return None

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        source, result = operand(placed.operand(0)), operand(placed.result)
        if is_integer(node.result_type):
            uniform = node.result_type.uniform
            factor = float(np.float32(1.0 / uniform.scale))
            asm.record(isa.Quantize(result, source, factor, uniform.zero_point))
        else:
            uniform = node.operand_types[0].uniform
            asm.record(isa.Dequantize(result, source, float(np.float32(uniform.scale)), uniform.zero_point))


@TABLE.runs(tpu.Pool2D)
class PoolKernel(TileKernel[tpu.Pool2D, ToyAssembler]):
    """Maximum, or sum times multiplier and shift."""

    def refuse(self, node: Node) -> str | None:
        op: tpu.Pool2D = node.op
        if op.pool_mode == "Avg" and (op.scale is not None or op.round_mode != "HalfUp"):
            return "averages only with multiplier and shift, rounded HalfUp"
        return integers_only(node)

    def space(self, node: Node) -> Space:
        source, result = elementwise_view(node.operand_types[0].dims), elementwise_view(node.result_type.dims)
        return Space(parallel_axes(result), (View(source),), (View(result),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        source = elementwise_view(node.operand_types[0].dims)
        return [window_box(tile, source, tile.range("c"), self._sliding(node))]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def _sliding(self, node: Node) -> Window:
        (kh, kw), (sh, sw), (top, left, bottom, right) = node.op.kernel_shape, node.op.strides, node.op.pads
        return Window((kh, kw), (sh, sw), (top, left, bottom, right))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        op: tpu.Pool2D = node.op
        x, whole = placed.operand(0), self._sliding(node)
        sliding = Window(whole.kernel, whole.strides, x.padding)
        if op.pool_mode == "Max":
            asm.record(isa.MaxPool(operand(placed.result), operand(x), sliding))
        else:
            asm.record(isa.AveragePool(operand(placed.result), operand(x), sliding, op.multiplier, op.rshift))
        emit_relu(node, placed.result, asm)


@TABLE.runs(tpu.Softmax)
class SoftmaxKernel(TileKernel[tpu.Softmax, ToyAssembler]):
    """In f32: rows across lanes, the axis along w."""

    def refuse(self, node: Node) -> str | None:
        op: tpu.Softmax = node.op
        dims = node.operand_types[0].dims
        if op.log:
            return "log softmax has no command"
        if math.prod(dims[op.axis % len(dims) + 1 :]) != 1:
            return f"only along the last dimension, this one has axis {op.axis} of {len(dims)} dimensions"
        if node.operand_types[0].storage.name != "f32":
            return f"only f32, this one is {node.operand_types[0].storage}"
        return None

    def space(self, node: Node) -> Space:
        dims = node.operand_types[0].dims
        op: tpu.Softmax = node.op
        extent = dims[op.axis]
        view = View((1, node.result_type.size // extent, 1, extent))
        axes = (*parallel_axes(view.shape, "nch"), Axis("w", extent, granularity=extent))
        return Space(axes, (view, *(None,) * (len(node.operand_types) - 1)), (view,))

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("compact",) * len(node.operand_types), ("compact",))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        beta = float(np.float32(node.op.beta))
        asm.record(isa.Softmax(operand(placed.result), operand(placed.operand(0)), beta))


@TABLE.runs(tpu.Reshape)
class ReshapeKernel(MoveKernel[tpu.Reshape]):
    """The same bytes: no command at all."""

    def is_alias(self, node: Node) -> bool:
        return True


@TABLE.runs(tpu.Permute)
class PermuteKernel(MoveKernel[tpu.Permute]):
    """One copy within DDR that reads with permuted strides."""

    def refuse(self, node: Node) -> str | None:
        rank = node.result_type.rank
        return f"at most 4 dimensions, this one has {rank}" if rank > 4 else None

    def moves(self, node: Node) -> Sequence[Move]:
        op: tpu.Permute = node.op
        source, result = node.operand_types[0].dims, node.result_type.dims
        strides = _dense_strides(source)
        read = _four([strides[axis] for axis in op.order], 0)
        return (Move(0, _four(result, 1), 0, read, 0, _four(_dense_strides(result), 0)),)


def _dense_strides(dims: Sequence[int]) -> list[int]:
    return [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]


def _four(values: Sequence[int], fill: int) -> Four:
    n, c, h, w = (*(fill,) * (4 - len(values)), *values)
    return (n, c, h, w)
