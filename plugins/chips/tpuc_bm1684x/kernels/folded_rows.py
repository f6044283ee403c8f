"""Convolution with few channels: folds neighboring rows into channels to use lanes and convolution array better.

A lane computes one output channel, so 16 channels occupy a quarter of the lanes; and the array multiplies 64 bytes of
input channels at once, whether there are 64 channels or 3. Channel `p * oc + c` of the folded result is channel c of
rows p, p + r, p + 2r and so on, channel `g * ic + i` of the folded input likewise: filters hold zeros where a row of
the input is not in the window of a row of the result. Transposes between lanes fold and unfold rows.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tpuc.api import (
    Axis,
    Candidate,
    LocalTensor,
    Node,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_chip_parts.tiles import ProductSpace, tile_shape
from tpuc_ops.arrays import Array
from tpuc_ops.integers import zero_point

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, DType, LaneTransfer, Operand, Scalar, TransferOp
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.kernels.common import MAX_WINDOW_STEP, lanes_of
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.packed_rows import PackedRowsKernel
from tpuc_bm1684x.kernels.packing import pack_filter
from tpuc_bm1684x.kernels.product import ConvKernel, Product, ProductKernel
from tpuc_bm1684x.operands import dtype_of, operand

_MOST_CHANNELS = 128
"""Folded channels of an input or result: further ones take as long as the rows that they replace."""

_LOADED_BYTES = 54
"""Bytes that a cycle loads from DDR."""
_CERTAIN = 32
"""Saved cycles per cycle of larger filters' load from which planning does not also try the kernel without folding."""


@dataclass(frozen=True)
class Fold:
    """`results` rows of the result, and `inputs` rows of the input, become one row of more channels."""

    results: int
    inputs: int
    first: int
    """The first input row of the window of row 0."""
    window: int
    """Rows of the folded window."""
    stride: int
    """Of the folded window."""
    cycles: int
    """Estimate, with `load`."""
    load: int
    """Cycles of loading what filters are larger."""
    plain: int
    """Estimate without folding."""

    def blocks(self, rows: int) -> int:
        """Folded input rows that the rows of a tile need."""
        return (rows // self.results - 1) * self.stride + self.window


def _taps(product: Product, results: int) -> Iterator[tuple[int, int, int]]:
    """Each row of the window of each folded row, with the input row at that place for row 0."""
    step = product.inserts[0] + 1
    for row in range(results):
        for tap in range(product.kernel[0]):
            place = row * product.strides[0] + tap * product.dilations[0] - product.pads[0]
            if place % step == 0:
                yield row, tap, place // step


def _turn(shape: Shape4, item: int, target: Target) -> tuple[int, TransferOp]:
    """Cycles of the cheaper transpose to a shape, and its operation; cw_ts writes lines."""
    n, c, h, w = shape
    ways = [(n * h * -(-w * item // target.eu_bytes), TransferOp.TRANSPOSE_WC)]
    if w * item % target.eu_bytes == 0:
        ways.append((n * h * -(-c * item // target.eu_bytes), TransferOp.TRANSPOSE_CW))
    return min(ways)


@functools.cache
def best_fold(product: Product, item: int, result_item: int, target: Target) -> Fold | None:
    """The fastest way to fold a product without its multipliers; None where folding does not pay. Items: bytes of an
    element of input and result.
    """
    images, channels, height, width = product.input.shape
    _, filters, rows, columns = product.output.shape
    step, lanes, pixels = product.inserts[0] + 1, lanes_of(target), target.pixels[item]
    taps = product.kernel[0] * product.kernel[1]
    plain = images * lanes.slots_of(filters) * -(-rows * columns // pixels) * taps
    plain *= -(-channels // target.packing[item])
    plain_bytes = filters * round_up(channels, target.packing[item]) * taps * item
    best: Fold | None = None
    if step > 1 and product.dilations[0] > 1:  # the first row of a window may be one that nobody reads
        return None
    for results in range(1, _MOST_CHANNELS // filters + 1):
        if rows % results or results % step:
            continue
        places = [place for _, _, place in _taps(product, results)]
        first, count = min(places), max(places) - min(places) + 1
        last = first + (rows - results) * product.strides[0] // step
        if first + count <= 0 or last >= height:  # a window in padding alone
            continue
        distance = results * product.strides[0] // step
        for inputs in range(1, _MOST_CHANNELS // channels + 1):
            if distance % inputs or distance // inputs > MAX_WINDOW_STEP or results * inputs == 1:
                continue
            window = -(-count // inputs)
            fold = Fold(results, inputs, first, window, distance // inputs, 0, 0, plain)
            blocks = fold.blocks(rows)
            if inputs == 1 and max(-first, first + blocks - height) > MAX_WINDOW_STEP:
                continue
            cycles = lanes.slots_of(results * filters) * -(-rows // results * columns // pixels) * window
            cycles *= -(-inputs * channels // target.packing[item]) * product.kernel[1]
            if results > 1:
                there = (1, columns, rows // results, results * filters)
                cycles += sum(_turn(shape, result_item, target)[0] for shape in (there, (1, filters, rows, columns)))
            if inputs > 1:
                there = (1, width, blocks * inputs, channels)
                back = (1, inputs * channels, blocks, width)
                cycles += _turn(there, item, target)[0] + _turn(back, item, target)[0]
                cycles += lanes.slots_of(channels) * -(-height * width * item // target.eu_bytes)
            depth = round_up(inputs * channels, target.packing[item])
            more = results * filters * depth * window * product.kernel[1] * item - plain_bytes
            load = max(more, 0) // _LOADED_BYTES
            cycles = images * cycles + load
            if best is None or cycles < best.cycles:
                best = replace(fold, cycles=cycles, load=load)
    return best if best is not None and best.cycles * 10 < plain * 9 else None


class FoldedRowsKernel(ProductKernel):
    """Like ProductKernel, for tiles of whole folded rows. `plain`: the kernel of the same node without folding, which
    loads smaller filters.
    """

    def __init__(self, target: Target, plain: TileKernel[Any, Bm1684xAssembler]) -> None:
        super().__init__(target)
        self._plain = plain

    def kernels(self, node: Node) -> Sequence[Candidate]:
        fold = self._fold(node)
        packed = self._plain.cycles(node) if isinstance(self._plain, PackedRowsKernel) else None
        saved = (fold.plain if packed is None else packed) - fold.cycles
        if saved > _CERTAIN * fold.load:
            return (Candidate(self, replace(self.space(node), is_wider=False)),)
        return (*self._plain.kernels(node), Candidate(self, self.space(node)))

    def fold(self, node: Node) -> Fold | None:
        """How rows are folded; None where that does not pay."""
        product = replace(self.product(node), multipliers=(), right_shifts=(), scales=())
        items = (type_.storage.bits // 8 for type_ in (node.operand_types[0], node.result_type))
        return best_fold(product, *items, self.target)

    def _fold(self, node: Node) -> Fold:
        fold = self.fold(node)
        assert fold is not None
        return fold

    def space(self, node: Node) -> Space:
        space, fold = super().space(node), self._fold(node)
        assert isinstance(space, ProductSpace)
        axes = tuple(_in_units(axis, fold.results) if axis.name == "h" else axis for axis in space.axes)
        return replace(space, axes=axes, is_wider=True)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        fold = self._fold(node)
        folded = _folded_tile(tile, fold)
        if name != "filter":
            return super().constant_shape(node, name, folded)
        channels = folded.size("c")
        depth = round_up(fold.inputs * tile.size("k"), self._packing(node))
        items = self.lanes.slots_of(channels) * depth * fold.window * self.product(node).kernel[1]
        return min(channels, self.lanes.count), items * (node.operand_types[0].storage.bits // 8)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        fold, product, channels = self._fold(node), self.product(node), tile.range("c")
        if name == "filter":
            filters = self.filter_array(node, arrays)[slice(*channels), slice(*self.filter_range(node, tile))]
            folded = _folded_filter(filters, fold, product, getattr(node.op, "kernel_zp", 0))
            return pack_filter(folded, self._packing(node), self.target)
        if name == "bias":
            return self.lanes.by_lane(np.tile(self.bias_rows(node, tile, arrays), (fold.results, 1)))
        count = fold.results * tile.size("c")
        multipliers, shifts = product.requantization(channels) if product.multipliers else ((), ())
        wide = replace(
            product,
            output=View((1, count, 1, 1)),
            multipliers=(*multipliers,) * fold.results,
            right_shifts=(*shifts,) * fold.results,
            scales=(*product.factors(channels),) * fold.results if product.scales else (),
        )
        return wide.records((0, count), zero_point(node.result_type), self.target)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        fold = self._fold(node)
        folded = _folded_tile(tile, fold)
        buffers = [*super().scratch(node, folded)]
        item, result_item = (type_.storage.bits // 8 for type_ in (node.operand_types[0], node.result_type))
        turned: list[int] = []
        if fold.inputs > 1:
            box = self.reads(node, self.space(node), tile)[0]
            assert box is not None
            shapes = self._shapes(fold, box.shape, tile.size("h"))
            padded, there, back = (self.lmem.tensor_bytes("aligned", shape, item) for shape in shapes)
            buffers.append(Scratch("padded", max(padded, back)))
            turned.append(there)
        if fold.results > 1:
            shape = tile_shape(folded)
            buffers.append(Scratch("folded", self.lmem.tensor_bytes("aligned", shape, result_item)))
            turned.append(self.lmem.tensor_bytes("aligned", _exchanged(shape), result_item))
        return (*buffers, Scratch("turned", max(turned)))

    @staticmethod
    def _shapes(fold: Fold, shape: Shape4, rows: int) -> tuple[Shape4, Shape4, Shape4]:
        """Extents of the padded input of a tile with that many result rows, of its transpose, and of the folded one."""
        n, channels, _, width = shape
        blocks = fold.blocks(rows)
        padded = (n, channels, blocks * fold.inputs, width)
        return padded, _exchanged(padded), (n, fold.inputs * channels, blocks, width)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        fold, result = self._fold(node), placed.result
        inner = replace(placed, operands=(self._folded_input(node, placed, asm), *placed.operands[1:]))
        if fold.results == 1:
            super().emit(node, inner, phase, asm)
            return
        shape = tile_shape(_folded_tile(placed.tile, fold))
        folded = LocalTensor(placed.scratch["folded"].address, shape, "aligned", result.element)
        super().emit(node, replace(inner, results=(folded,)), phase, asm)
        if not phase.ends:
            return
        turned, dtype = placed.scratch["turned"].address, dtype_of(result.element)
        self._turn(asm, _exchanged(shape), dtype, turned, folded.address)
        self._turn(asm, result.shape, dtype, result.address, turned)

    def _turn(self, asm: Bm1684xAssembler, shape: Shape4, dtype: DType, result: int, source: int) -> None:
        operation = _turn(shape, dtype.bytes, self.target)[1]
        asm.record(LaneTransfer(operation=operation, shape=shape, dtype=dtype, result=result, source=source))

    def _folded_input(self, node: Node, placed: PlacedTile, asm: Bm1684xAssembler) -> LocalTensor:
        """The input with folded rows, and the rows and columns of padding around it."""
        fold, product, x = self._fold(node), self.product(node), placed.operand(0)
        box = self.reads(node, self.space(node), placed.tile)[0]
        assert box is not None
        begin = placed.tile.range("h")[0] * product.strides[0] // (product.inserts[0] + 1) + fold.first
        blocks = fold.blocks(placed.tile.size("h"))
        before = box.start[2] - begin
        _, left, _, right = x.padding
        if fold.inputs == 1:
            after = max(blocks - before - x.shape[2], 0)
            return replace(x, padding=(before, left, after, right))
        padded, there, back = self._shapes(fold, x.shape, placed.tile.size("h"))
        address, turned, dtype = placed.scratch["padded"].address, placed.scratch["turned"].address, dtype_of(x.element)
        self._pad(node, x, padded, before, address, asm)
        self._turn(asm, there, dtype, turned, address)
        self._turn(asm, back, dtype, address, turned)
        return LocalTensor(address, back, "aligned", x.element, (0, left, 0, right))

    def _pad(self, node: Node, x: LocalTensor, shape: Shape4, before: int, address: int, asm: Bm1684xAssembler) -> None:
        """Copy the rows of the input behind `before` rows of padding, and pad the rest."""
        n, channels, height, width = shape
        plain = Operand(address, dtype_of(x.element))
        strides, source = plain.strides(shape, self.target), operand(x)
        rows = min(x.shape[2], height - before)
        fill = Scalar.of(zero_point(node.operand_types[0]), plain.dtype)
        whole = replace(source, layout=source.strides(x.shape, self.target))
        for first, count, values in ((0, before, fill), (before, rows, whole), (before + rows, height, fill)):
            count = min(count, height - first)
            if count > 0:
                part = Operand(address + first * width * plain.dtype.bytes, plain.dtype, strides)
                arithmetic(asm, ArithmeticOp.COPY, (n, channels, count, width), part, values)

    def emit_sum(
        self, node: Node, product: Product, placed: PlacedTile, target: Operand, phase: Phase, asm: Bm1684xAssembler
    ) -> None:
        fold = self._fold(node)
        geometry = replace(
            product,
            kernel=(fold.window, product.kernel[1]),
            strides=(fold.stride, product.strides[1]),
            dilations=(1, product.dilations[1]),
            inserts=(0, product.inserts[1]),
        )
        super().emit_sum(node, geometry, placed, target, phase, asm)


def _in_units(axis: Axis, unit: int) -> Axis:
    return replace(axis, granularity=unit, limit=max(axis.limit // unit * unit, unit))


def _exchanged(shape: Shape4) -> Shape4:
    n, c, h, w = shape
    return (n, w, h, c)


def _folded_tile(tile: Tile, fold: Fold) -> Tile:
    """The tile of the folded result."""
    n, c, h, w = tile_shape(tile)
    first, end = tile.range("k")
    stops = (n, c * fold.results, h // fold.results, w, end)
    return Tile(("n", "c", "h", "w", "k"), (0, 0, 0, 0, first), stops)


def _folded_filter(filters: Array, fold: Fold, product: Product, zero: int) -> Array:
    """Filters `[results * oc, inputs * ic, window, kw]` for folded rows."""
    oc, ic, _, kw = filters.shape
    wide = np.full((fold.results, oc, fold.inputs, ic, fold.window, kw), zero, filters.dtype)
    for row, tap, place in _taps(product, fold.results):
        block, part = divmod(place - fold.first, fold.inputs)
        wide[row, :, part, :, block] = filters[:, :, tap]
    return wide.reshape(fold.results * oc, fold.inputs * ic, fold.window, kw)


class FoldedConvKernel(FoldedRowsKernel, ConvKernel):
    """Convolution without groups."""
