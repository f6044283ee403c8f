"""Products of many rows with a constant matrix, with each row in its own lane, as neighboring layers have them."""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from tpuc.api import (
    Axis,
    Box,
    Candidate,
    DdrTensor,
    Layouts,
    LocalTensor,
    Node,
    PackedConstant,
    Phase,
    PlacedTile,
    ScalarType,
    Scratch,
    Shape4,
    Space,
    Tile,
    View,
)
from tpuc_ops.arrays import Array

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import (
    ArithmeticOp,
    Conv,
    DType,
    LaneTransfer,
    Layout,
    MatMul,
    MatMulOp,
    Operand,
    TensorCopy,
    TransferOp,
)
from tpuc_bm1684x.isa.command import Bm1684xInstruction
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import BM1684X, Target
from tpuc_bm1684x.kernels.activation import emit_relu
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.product import MatMulKernel
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand
from tpuc_bm1684x.timing import cycles
from tpuc_bm1684x.vectors import vector_loads, vector_stores

MOST_ROWS = 1024
"""Maximum number of rows that are not split into batches."""


_UNUSED_BYTES = 4  # an empty block is not a legal transfer


class Form(enum.Enum):
    """Algorithms for a product of rows with a constant matrix."""

    CHANNELS = "channels"
    """Each row is an image of one pixel, with its elements across the lanes."""
    IMAGE = "image"
    """The rows are transposed into the pixels of one image, and the result is transposed back."""
    WIDE = "wide"
    """The matrix command, with one row per lane."""


@dataclass(frozen=True)
class Cost:
    """Cycles of compute and DMA engine."""

    compute: int
    transfers: int

    @property
    def total(self) -> int:
        """Cycles of both engines, executed sequentially."""
        return self.compute + self.transfers


def rows_view(dims: Sequence[int], target: Target) -> Shape4 | None:
    """View of rows across the lanes, with their elements along h; None when no batch size divides the rows."""
    rows, width = math.prod(dims[:-1]), dims[-1]
    if width > MAX_EXTENT:
        return None
    if len(dims) == 3 and dims[0] > 1 and dims[1] <= MOST_ROWS:
        return (dims[0], dims[1], width, 1)
    if rows <= MOST_ROWS:
        return (1, rows, width, 1)
    sizes = [size for size in range(MOST_ROWS, target.lanes - 1, -1) if rows % size == 0]
    best = next((size for size in sizes if size % target.lanes == 0), sizes[0] if sizes else 0)
    return (rows // best, best, width, 1) if best and rows // best <= MAX_EXTENT else None


@functools.cache
def _costs(
    view: Shape4, width: int, element: ScalarType, filters: ScalarType, result: ScalarType, target: Target
) -> dict[Form, Cost]:
    """Cost of each form when rows are loaded from DDR and results are stored to DDR."""
    n, rows, depth, _ = view
    kind, weight = dtype_of(element), Operand(0, dtype_of(filters), Layout.COMPACT)
    total = Operand(0, DType.F32 if kind.is_float else DType.INT32)

    def _cycles(instruction: Bm1684xInstruction) -> int:
        return cycles(instruction.on(target))

    def conv(shape: Shape4) -> int:
        source = (depth, shape[2], shape[3])
        x = Operand(0, kind)
        return _cycles(Conv(result=total, result_shape=shape, input=x, input_shape=source, weight=weight))

    def turn(shape: Shape4, dtype: DType) -> int:
        apart = target.eu_bytes
        return _cycles(
            LaneTransfer(operation=TransferOp.TRANSPOSE_WC, shape=shape, dtype=dtype, result=0, source=apart)
        )

    def copy(shape: Shape4, dtype: DType, *, load: bool) -> int:
        strides = (shape[1] * shape[2], shape[2], 1, 1)
        ends = (target.ddr_base, target.lmem_base)
        source, destination = ends if load else ends[::-1]
        return _cycles(
            TensorCopy(
                source=source,
                destination=destination,
                shape=shape,
                dtype=dtype,
                source_strides=strides,
                destination_strides=strides,
            )
        )

    moves = copy(view, kind, load=True) + copy((n, rows, width, 1), dtype_of(result), load=False)
    flat, out = (n * rows, depth, 1, 1), (n * rows, width, 1, 1)
    loads = vector_loads(LocalTensor(0, flat, "aligned", element), _dense(flat, element, target), target)
    stores = vector_stores(_dense(out, result, target), LocalTensor(0, out, "aligned", result), target)
    turns = turn((n, depth, 1, rows), kind) + turn((n, rows, 1, width), dtype_of(result))
    found = {
        Form.CHANNELS: Cost(conv(out), min(map(_cycles, loads)) + min(map(_cycles, stores))),
        Form.IMAGE: Cost(conv((n, width, 1, rows)) + turns, moves),
    }
    if kind.is_float and kind.bytes == 2:
        left = Operand(0, kind)
        product = MatMul(
            operation=MatMulOp.NN, rows=rows, columns=width, depth=depth, result=total, left=left, right=left
        )
        found[Form.WIDE] = Cost(n * _cycles(product), moves)
    return found


def _dense(shape: Shape4, element: ScalarType, target: Target) -> DdrTensor:
    return DdrTensor(target.ddr_base, shape, (shape[1], 1, 1, 1), element)


def forms_of(node: Node, target: Target) -> list[Form]:
    """The candidate forms, the fastest for a lone product first."""
    view = rows_view(node.operand_types[0].dims, target)
    if view is None or view[0] * view[1] == 1 or node.result_type.dims[-1] > MAX_EXTENT:
        return [Form.CHANNELS]
    left, right = node.operand_types[:2]
    costs = _costs(view, node.result_type.dims[-1], left.storage, right.storage, node.result_type.storage, target)
    rows = [form for form in costs if form is not Form.CHANNELS]
    ranked = sorted([Form.CHANNELS, min(rows, key=lambda form: costs[form].total)], key=lambda f: costs[f].total)
    first, second = (costs[form] for form in ranked)
    # Where rows stay in local memory, transfers do not count, but the other form must not compute for longer.
    return ranked if second.compute <= first.total else ranked[:1]


class ImageRowsKernel(MatMulKernel):
    """Transposes rows within local memory into the pixels of an image, and transposes the result back."""

    def space(self, node: Node) -> Space:
        view = rows_view(node.operand_types[0].dims, self.target)
        assert view is not None
        n, rows, depth, _ = view
        width, lanes = node.result_type.dims[-1], self.lanes.count
        operands = (View(view), *(None for _ in node.operand_types[1:]))
        axes = (Axis("h", width, granularity=lanes), Axis("n", n), Axis("k", depth, reduction=True, granularity=lanes))
        return Space(axes, operands, (View((n, rows, width, 1)),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        view = space.operands[0]
        assert view is not None
        (n0, n1), (k0, k1) = tile.range("n"), tile.range("k")
        box = Box((n0, 0, k0, 0), (n1 - n0, view.shape[1], k1 - k0, 1))
        return [box, *(None for _ in node.operand_types[1:])]

    def layouts(self, node: Node) -> Layouts:
        plain = super().layouts(node)
        return Layouts(plain.operands, plain.results)

    def _sideways(self, node: Node, tile: Tile) -> Tile:
        """The tile as seen by the convolution: matrix columns are channels, rows are image columns."""
        (n0, n1), (h0, h1), (k0, k1) = (tile.range(name) for name in "nhk")
        view = rows_view(node.operand_types[0].dims, self.target)
        assert view is not None
        return Tile(("n", "c", "h", "w", "k"), (n0, h0, 0, 0, k0), (n1, h1, 1, view[1], k1))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        return super().constant_shape(node, name, self._sideways(node, tile))

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        return super().pack(node, name, self._sideways(node, tile), arrays)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        transposed = self._sideways(node, tile)
        n, rows = transposed.size("n"), transposed.size("w")
        sizes = {
            "transposed_rows": (transposed.size("k"), node.operand_types[0]),
            "transposed_result": (transposed.size("c"), node.result_type),
        }
        lmem = self.lmem
        buffers = [
            Scratch(name, lmem.tensor_bytes("aligned", (n, channels, 1, rows), type_.storage.bits // 8))
            for name, (channels, type_) in sizes.items()
        ]
        return (*super().scratch(node, transposed), *buffers)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result = placed.operand(0), placed.result
        n, rows, depth, _ = x.shape
        columns = result.shape[2]
        source = LocalTensor(placed.scratch["transposed_rows"].address, (n, depth, 1, rows), "aligned", x.element)
        target = LocalTensor(
            placed.scratch["transposed_result"].address, (n, columns, 1, rows), "aligned", result.element
        )
        turn(x, source, asm)
        transposed = self._sideways(node, placed.tile)
        inner = replace(placed, tile=transposed, operands=(source, *placed.operands[1:]), results=(target,))
        super().emit(node, inner, phase, asm)
        if phase.ends:
            turn(target, result, asm)


def turn(source: LocalTensor, result: LocalTensor, asm: Bm1684xAssembler) -> None:
    """Transpose channels with the elements of each plane; both tensors are aligned."""
    n, channels, height, width = result.shape
    asm.record(
        LaneTransfer(
            operation=TransferOp.TRANSPOSE_WC,
            shape=(n, channels, 1, height * width),
            dtype=dtype_of(source.element),
            result=result.address,
            source=source.address,
        )
    )


class WideRowsKernel(ImageRowsKernel):
    """Multiplies rows of 16-bit floats by the matrix command: sums in f32, then the bias, then one rounding.

    Every lane adds the whole bias row, so the bias is loaded as a tensor and not per channel.
    """

    def space(self, node: Node) -> Space:
        space = super().space(node)
        if not self.product(node).has_bias:
            return space
        row = View((1, 1, node.result_type.dims[-1], 1))
        return replace(space, operands=(*space.operands[:2], row, *space.operands[3:]))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes = list(super().reads(node, space, tile))
        if space.operands[2] is not None:
            boxes[2] = Box((0, 0, tile.range("h")[0], 0), (1, 1, tile.size("h"), 1))
        return boxes

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        """When `Form.CHANNELS` is also a candidate, both forms share its set of constants."""
        without = "bias" if forms_of(node, self.target) == [Form.WIDE] else ""
        return [constant for constant in super().constants(node) if constant.name != without]

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        columns, depth = tile.size("h"), tile.size("k")
        if name == "bias":
            return 1, _UNUSED_BYTES
        return min(depth, self.lanes.count), self.lanes.slots_of(depth) * round_up(columns * 2, self.target.eu_bytes)

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name == "bias":
            return np.zeros((1, _UNUSED_BYTES), np.uint8)
        (h0, h1), (k0, k1) = tile.range("h"), tile.range("k")
        matrix = self.filter_array(node, arrays)[h0:h1, k0:k1, 0, 0].T
        padded = np.zeros((k1 - k0, round_up((h1 - h0) * 2, self.target.eu_bytes) // 2), matrix.dtype)
        padded[:, : h1 - h0] = matrix
        return self.lanes.by_lane(padded)

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        transposed, columns = self._sideways(node, tile), tile.size("h")
        shape = (tile.size("n"), transposed.size("w"), columns, 1)
        buffers = [Scratch("sum", self.lmem.tensor_bytes("aligned", shape, 4))]
        if self.product(node).has_bias:
            buffers.append(Scratch("bias_rows", round_up(columns * 4, self.target.eu_bytes)))
        return buffers

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        x, result = placed.operand(0), placed.result
        n, rows, depth, _ = x.shape
        columns = result.shape[2]
        total = Operand(placed.scratch["sum"].address, DType.F32)
        left = operand(x)
        for batch in range(n):
            asm.record(
                MatMul(
                    operation=MatMulOp.NN,
                    rows=rows,
                    columns=columns,
                    depth=depth,
                    result=batch_of(total, result.shape, batch, self.target),
                    left=batch_of(left, x.shape, batch, self.target),
                    right=Operand(placed.constants["filter"].address, left.dtype),
                    accumulate=not phase.starts,
                )
            )
        if not phase.ends:
            return
        if self.product(node).has_bias:
            spread = placed.scratch["bias_rows"].address
            asm.record(
                LaneTransfer(
                    operation=TransferOp.BROADCAST,
                    shape=(1, min(rows, self.lanes.count), columns, 1),
                    dtype=DType.F32,
                    result=spread,
                    source=placed.operand(2).address,
                )
            )
            row = Operand(spread, DType.F32, (0, 0, 1, 1))
            arithmetic(asm, ArithmeticOp.ADD, result.shape, total, total, row)
        arithmetic(asm, ArithmeticOp.CAST, result.shape, operand(result), total)
        emit_relu(node, result, asm)


def batch_of(whole: Operand, shape: Shape4, number: int, target: Target) -> Operand:
    """One batch of an aligned tensor, as a separate operand."""
    return Operand(whole.address + number * whole.strides(shape, target)[0] * whole.dtype.bytes, whole.dtype)


class ConstantMatMulKernel(MatMulKernel):
    """Offers the forms that suit the neighboring layers: elements of a row across the lanes, or rows across the
    lanes.
    """

    def __init__(self, target: Target = BM1684X) -> None:
        super().__init__(target)
        self._kernels = {Form.CHANNELS: self, Form.IMAGE: ImageRowsKernel(target), Form.WIDE: WideRowsKernel(target)}

    def kernels(self, node: Node) -> Sequence[Candidate]:
        kernels = [self._kernels[form] for form in forms_of(node, self.target)]
        return [Candidate(kernel, kernel.space(node)) for kernel in kernels]

    def layouts(self, node: Node) -> Layouts:
        """With a single form, operands may be parts of larger tensors."""
        plain = super().layouts(node)
        return plain if forms_of(node, self.target) == [Form.CHANNELS] else Layouts(plain.operands, plain.results)

    def tiling_key(self, node: Node) -> Hashable:
        return (super().tiling_key(node), tuple(forms_of(node, self.target)))
