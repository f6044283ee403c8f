"""Convolution with few channels: folds neighboring rows into channels to use lanes and convolution array better.

A lane computes one output channel, so 16 channels occupy a quarter of the lanes; and the array multiplies 64 bytes of
input channels at once, whether there are 64 channels or 3. Channel `p * oc + c` of the folded result is channel c of
rows p, p + r, p + 2r and so on, channel `g * ic + i` of the folded input likewise: filters hold zeros where a row of
the input is not in the window of a row of the result. Transposes between lanes fold and unfold rows. The columns of
images with a single row count as rows of a single column: the places are the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
from tpuc_chip_parts.tiles import tile_shape
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
"""Bytes that a cycle loads from DDR, for estimates: 58 GB/s, by the vendor's clock of BM1684X (README of the chip)."""
_WORTH_PERCENT = 90
"""Of the cycles without folding that it takes at most, since estimates leave out what surrounds the products."""
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


def upright(product: Product) -> Product:
    """A product of images with a single row as one of images with a single column; others as they are."""
    (_, _, height, _), (_, _, rows, _) = product.input.shape, product.output.shape
    top, left, bottom, right = product.pads
    if (height, rows, product.kernel[0], top, bottom) != (1, 1, 1, 0, 0):
        return product
    return replace(
        product,
        input=View(_on_end(product.input.shape)),
        output=View(_on_end(product.output.shape)),
        kernel=product.kernel[::-1],
        strides=product.strides[::-1],
        dilations=product.dilations[::-1],
        inserts=product.inserts[::-1],
        pads=(left, 0, right, 0),
    )


class Shapes(NamedTuple):
    """Extents of `blocks` runs of `parts` rows, and of the folded rows. Rows of a single column are put apart within
    their lanes: else their transpose would lie in one lane.
    """

    rows: Shape4
    folded: Shape4
    """As the result of a transpose; the folded rows are the same elements with blocks along h."""
    is_apart: bool
    """Rows of a block are blocks apart."""
    is_direct: bool
    """Rows of one channel and column are transposed once."""

    @classmethod
    def of(cls, images: int, channels: int, parts: int, blocks: int, width: int) -> Shapes:
        """The extents for rows of that many columns."""
        if width > 1 or channels == 1:
            rows, folded = (images, channels, blocks * parts, width), (images, parts * channels, blocks, width)
            return cls(rows, folded, False, width == 1)
        return cls((images, channels, parts, blocks), (images, parts * channels, 1, blocks), True, False)

    def cycles(self, item: int, target: Target, *, folds: bool) -> int:
        """Estimate of folding, or of unfolding, all rows."""
        total = _turn(self.folded if folds else _exchanged(self.folded), item, target)[0]
        if not self.is_direct:
            total += _turn(_exchanged(self.rows) if folds else self.rows, item, target)[0]
        if self.is_apart:
            n, c, parts, blocks = self.rows
            planes = n * lanes_of(target).slots_of(c) * -(-blocks * item // target.eu_bytes)
            total += parts * planes * min(parts, target.eu_bytes // item)
        return total


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
                shapes = Shapes.of(1, filters, results, rows // results, columns)
                cycles += shapes.cycles(result_item, target, folds=False)
            if inputs > 1:
                cycles += Shapes.of(1, channels, inputs, blocks, width).cycles(item, target, folds=True)
                cycles += lanes.slots_of(channels) * -(-height * width * item // target.eu_bytes)
            depth = round_up(inputs * channels, target.packing[item])
            more = results * filters * depth * window * product.kernel[1] * item - plain_bytes
            load = max(more, 0) // _LOADED_BYTES
            cycles = images * cycles + load
            if best is None or cycles < best.cycles:
                best = replace(fold, cycles=cycles, load=load)
    return best if best is not None and best.cycles * 100 < plain * _WORTH_PERCENT else None


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
        product = upright(replace(self.product(node), multipliers=(), right_shifts=(), scales=()))
        items = (type_.storage.bits // 8 for type_ in (node.operand_types[0], node.result_type))
        return best_fold(product, *items, self.target)

    def _fold(self, node: Node) -> Fold:
        fold = self.fold(node)
        assert fold is not None
        return fold

    def space(self, node: Node) -> Space:
        space, fold = super().space(node), self._fold(node)
        rows = _rows_axis(self.product(node))
        axes = tuple(_in_units(axis, fold.results) if axis.name == rows else axis for axis in space.axes)
        return replace(space, axes=axes, is_wider=True)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        fold = self._fold(node)
        product, folded = self.product(node), self._folded_tile(node, tile)
        if name != "filter":
            return super().constant_shape(node, name, folded)
        channels = folded.size("c")
        depth = round_up(fold.inputs * tile.size("k"), self._packing(node))
        items = self.lanes.slots_of(channels) * depth * fold.window * upright(product).kernel[1]
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
        fold, folded = self._fold(node), self._folded_tile(node, tile)
        item, result_item = (type_.storage.bits // 8 for type_ in (node.operand_types[0], node.result_type))
        sizes = dict[str, int]()

        def add(name: str, shape: Shape4, size: int) -> None:
            sizes[name] = max(sizes.get(name, 0), self.lmem.tensor_bytes("aligned", shape, size))

        if fold.inputs > 1:
            box = self.reads(node, self.space(node), tile)[0]
            assert box is not None
            shapes = self._input_shapes(fold, self._upright(node, box.shape), tile_shape(folded)[2])
            add("padded", shapes.rows, item)
            add("folded_input" if shapes.is_direct else "padded", shapes.folded, item)
            if not shapes.is_direct:
                add("turned", _exchanged(shapes.rows), item)
        if fold.results > 1:
            shapes = self._result_shapes(fold, tile_shape(folded))
            add("folded", shapes.folded, result_item)
            if not shapes.is_direct:
                add("turned", _exchanged(shapes.folded), result_item)
            if shapes.is_apart:
                add("apart", shapes.rows, result_item)
        return (*super().scratch(node, folded), *(Scratch(name, size) for name, size in sizes.items()))

    def _upright(self, node: Node, shape: Shape4) -> Shape4:
        """Extents with rows along h."""
        return _on_end(shape) if _rows_axis(self.product(node)) == "w" else shape

    def _folded_tile(self, node: Node, tile: Tile) -> Tile:
        """The tile of the folded result."""
        fold, (n, c, h, w) = self._fold(node), self._upright(node, tile_shape(tile))
        first, end = tile.range("k")
        stops = (n, c * fold.results, h // fold.results, w, end)
        return Tile(("n", "c", "h", "w", "k"), (0, 0, 0, 0, first), stops)

    @staticmethod
    def _input_shapes(fold: Fold, x: Shape4, rows: int) -> Shapes:
        """For a tile of so many folded rows."""
        n, channels, _, width = x
        return Shapes.of(n, channels, fold.inputs, (rows - 1) * fold.stride + fold.window, width)

    @staticmethod
    def _result_shapes(fold: Fold, folded: Shape4) -> Shapes:
        n, channels, rows, width = folded
        return Shapes.of(n, channels // fold.results, fold.results, rows, width)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        fold, result = self._fold(node), placed.result
        shape = tile_shape(self._folded_tile(node, placed.tile))
        address = placed.scratch["folded"].address if fold.results > 1 else result.address
        folded = LocalTensor(address, shape, "aligned", result.element)
        operands = (self._folded_input(node, placed, asm), *placed.operands[1:])
        super().emit(node, replace(placed, operands=operands, results=(folded,)), phase, asm)
        if fold.results > 1 and phase.ends:
            self._unfold(fold, placed, folded, asm)

    def _unfold(self, fold: Fold, placed: PlacedTile, folded: LocalTensor, asm: Bm1684xAssembler) -> None:
        shapes, dtype = self._result_shapes(fold, folded.shape), dtype_of(folded.element)
        result = placed.result.address
        if shapes.is_direct:
            self._turn(asm, _exchanged(shapes.folded), dtype, result, folded.address)
            return
        turned = placed.scratch["turned"].address
        rows = placed.scratch["apart"].address if shapes.is_apart else result
        self._turn(asm, _exchanged(shapes.folded), dtype, turned, folded.address)
        self._turn(asm, shapes.rows, dtype, rows, turned)
        if not shapes.is_apart:
            return
        n, c, parts, blocks = shapes.rows
        source = Operand(rows, dtype).strides(shapes.rows, self.target)
        target = Operand(result, dtype).strides((n, c, 1, blocks * parts), self.target)
        for part in range(parts):
            arithmetic(
                asm,
                ArithmeticOp.COPY,
                (n, c, 1, blocks),
                Operand(result + part * dtype.bytes, dtype, (*target[:3], parts)),
                Operand(rows + part * blocks * dtype.bytes, dtype, source),
            )

    def _turn(self, asm: Bm1684xAssembler, shape: Shape4, dtype: DType, result: int, source: int) -> None:
        operation = _turn(shape, dtype.bytes, self.target)[1]
        asm.record(LaneTransfer(operation=operation, shape=shape, dtype=dtype, result=result, source=source))

    def _folded_input(self, node: Node, placed: PlacedTile, asm: Bm1684xAssembler) -> LocalTensor:
        """The input with folded rows, and the rows and columns of padding around it."""
        fold, product, x = self._fold(node), self.product(node), placed.operand(0)
        box = self.reads(node, self.space(node), placed.tile)[0]
        assert box is not None
        axis, upright_product = _rows_axis(product), upright(product)
        start, (_, left, _, right) = box.start["nchw".index(axis)], x.padding
        if axis == "w":
            x, left, right = _stood(x), 0, 0
        first = placed.tile.range(axis)[0] * upright_product.strides[0] // (upright_product.inserts[0] + 1)
        before, rows = start - first - fold.first, placed.tile.size(axis) // fold.results
        if fold.inputs == 1:
            after = max((rows - 1) * fold.stride + fold.window - before - x.shape[2], 0)
            return replace(x, padding=(before, left, after, right))
        shapes = self._input_shapes(fold, x.shape, rows)
        padded, dtype = placed.scratch["padded"].address, dtype_of(x.element)
        self._pad(node, x, shapes, before, padded, asm)
        folded = placed.scratch["folded_input"].address if shapes.is_direct else padded
        source = padded
        if not shapes.is_direct:
            source = placed.scratch["turned"].address
            self._turn(asm, _exchanged(shapes.rows), dtype, source, padded)
        self._turn(asm, shapes.folded, dtype, folded, source)
        n, channels, h, w = shapes.folded
        shape = (n, channels, w, h) if shapes.is_apart else shapes.folded
        return LocalTensor(folded, shape, "aligned", x.element, (0, left, 0, right))

    def _pad(
        self, node: Node, x: LocalTensor, shapes: Shapes, before: int, address: int, asm: Bm1684xAssembler
    ) -> None:
        """Copy the rows of the input behind `before` rows of padding, and pad the rest."""
        n, channels, height, width = shapes.rows
        parts, blocks = (height, width) if shapes.is_apart else (1, height)
        plain = Operand(address, dtype_of(x.element))
        strides, source = plain.strides(shapes.rows, self.target), operand(x).strides(x.shape, self.target)
        rows, fill = min(x.shape[2], parts * blocks - before), Scalar.of(zero_point(node.operand_types[0]), plain.dtype)
        gaps = ((0, before), (before + rows, height)) if parts == 1 else ((0, height),) * (rows < parts * blocks)
        for first, end in gaps:
            if first < end:
                part = replace(plain, address=address + first * width * plain.dtype.bytes, layout=strides)
                arithmetic(asm, ArithmeticOp.COPY, (n, channels, end - first, width), part, fill)
        for part in range(parts):
            first, end = (max(-(-(edge - part) // parts), 0) for edge in (before, before + rows))
            if first >= end:
                continue
            place = part * width + first if shapes.is_apart else first * width
            start = (first * parts + part - before) * source[2]
            shape = (n, channels, 1, end - first) if shapes.is_apart else (n, channels, end - first, width)
            steps = (*source[:2], 0, parts * source[2]) if shapes.is_apart else source
            arithmetic(
                asm,
                ArithmeticOp.COPY,
                shape,
                Operand(address + place * plain.dtype.bytes, plain.dtype, strides),
                Operand(x.address + start * plain.dtype.bytes, plain.dtype, steps),
            )

    def emit_sum(
        self, node: Node, product: Product, placed: PlacedTile, target: Operand, phase: Phase, asm: Bm1684xAssembler
    ) -> None:
        fold, product = self._fold(node), upright(product)
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


def _on_end(shape: Shape4) -> Shape4:
    n, c, h, w = shape
    return (n, c, w, h)


def _stood(x: LocalTensor) -> LocalTensor:
    """A row as a column, in the same places."""
    return replace(x, shape=_on_end(x.shape), strides=None if x.strides is None else _on_end(x.strides))


def _rows_axis(product: Product) -> str:
    """The axis of tiles whose places are folded."""
    return "h" if upright(product) is product else "w"


def _folded_filter(filters: Array, fold: Fold, product: Product, zero: int) -> Array:
    """Filters `[results * oc, inputs * ic, window, kw]` for folded rows."""
    product = upright(product)
    filters = filters.reshape(*filters.shape[:2], *product.kernel)
    oc, ic, _, kw = filters.shape
    wide = np.full((fold.results, oc, fold.inputs, ic, fold.window, kw), zero, filters.dtype)
    for row, tap, place in _taps(product, fold.results):
        block, part = divmod(place - fold.first, fold.inputs)
        wide[row, :, part, :, block] = filters[:, :, tap]
    return wide.reshape(fold.results * oc, fold.inputs * ic, fold.window, kw)


class FoldedConvKernel(FoldedRowsKernel, ConvKernel):
    """Convolution without groups."""
