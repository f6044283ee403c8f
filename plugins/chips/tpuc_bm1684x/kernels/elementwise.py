"""Code shared by elementwise kernels: broadcast operands and the arithmetic command."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tpuc.api import (
    ABSENT,
    Box,
    Candidate,
    LocalTensor,
    Node,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
)
from tpuc_chip_parts.tiles import tile_shape
from tpuc_ops.quant.arithmetic import Rounding

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import Arithmetic, ArithmeticOp, LaneTransfer, Operand, Scalar, TransferOp
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.kernels.common import (
    OfChip,
    RepeatedSpace,
    elementwise_spaces,
    flat_space,
    in_spaces,
    row_blocks_space,
    views_of,
)
from tpuc_bm1684x.operands import dtype_of, strided

SourceT = TypeVar("SourceT", Operand, Scalar, "Operand | Scalar", "Operand | Scalar | None")

_MAX_STEP = 65535  # n and c strides of AR are 16-bit fields


class ElementwiseKernel(OfChip, TileKernel[Any, Bm1684xAssembler]):
    """Base of elementwise kernels: operands and result are corresponding tiles; operands broadcast along extents of 1.

    A lane reads only its own memory, so an operand with a single channel is first broadcast to all lanes.
    """

    temporaries: tuple[tuple[str, int], ...] = ()
    """Name and element size in bytes of scratch buffers with the result's extents that `emit` needs."""

    def refuse(self, node: Node) -> str | None:
        if any(type_ is ABSENT for type_ in node.operand_types):
            return "an absent operand"
        return _repeat_refusal(node)

    def space(self, node: Node) -> Space:
        return flat_space(node, self.target)

    def kernels(self, node: Node) -> Sequence[Candidate]:
        return in_spaces(self, elementwise_spaces(node, self.target))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes = super().reads(node, space, tile)
        if not isinstance(space, RepeatedSpace):
            return boxes
        return [space.box(index, tile) or box for index, box in enumerate(boxes)]

    def tiling_key(self, node: Node) -> Hashable:
        return (self.needed(node), tuple(self.spread_operands(node)))

    def needed(self, node: Node) -> tuple[tuple[str, int], ...]:
        """The `temporaries` for this node."""
        return self.temporaries

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        lmem, shape = self.lmem, tile_shape(tile)
        buffers = [Scratch(name, lmem.tensor_bytes("aligned", shape, size)) for name, size in self.needed(node)]
        for index, views in self._spread_views(node).items():
            size = node.operand_types[index].storage.bits // 8
            needed = max(lmem.tensor_bytes("aligned", _one_lane(view, shape), size) for view in views)
            buffers.append(Scratch(f"spread{index}", needed))
        return buffers

    def spread_operands(self, node: Node) -> list[int]:
        """Indices of operands with one channel when the result has more, in one of the spaces."""
        return list(self._spread_views(node))

    def _spread_views(self, node: Node) -> dict[int, list[View]]:
        """The views of such operands, by index."""
        found: dict[int, list[View]] = {}
        for space in (self.space(node), row_blocks_space(node, self.target)):
            for index, view in enumerate(space.operands if space is not None else ()):
                if space is not None and view is not None and view.shape[1] == 1 < space.results[0].shape[1]:
                    found.setdefault(index, []).append(view)
        return dict(sorted(found.items()))

    def sources(self, node: Node, placed: PlacedTile, asm: Bm1684xAssembler) -> list[Operand]:
        """The operands broadcast to the result's extents, after broadcasting over lanes where necessary."""
        spread = self.spread_operands(node)
        found: list[Operand] = []
        for index, local in enumerate(placed.operands):
            if local is None:
                continue
            if index in spread and local.shape[1] < placed.result.shape[1]:
                local = _spread(local, placed.scratch[f"spread{index}"].address, placed.result.shape[1], asm)
            found.append(strided(local, placed.result.shape, self.target))
        return found


def _one_lane(view: View, tile: Shape4) -> Shape4:
    """The extents of a tile of an operand with one channel."""
    n, _, h, w = (1 if extent == 1 else tiled for extent, tiled in zip(view.shape, tile, strict=True))
    return n, 1, h, w


def _repeat_refusal(node: Node) -> str | None:
    views, result = views_of(node)
    if any(own not in (1, whole) for view in views for own, whole in zip(view.shape, result.shape, strict=True)):
        return "dimensions with and without broadcast alternate in more than four runs"
    return None


def _spread(local: LocalTensor, address: int, channels: int, asm: Bm1684xAssembler) -> LocalTensor:
    n, _, h, w = local.shape
    asm.record(
        LaneTransfer(
            operation=TransferOp.BROADCAST,
            shape=(n, min(channels, asm.target.lanes), h, w),
            dtype=dtype_of(local.element),
            result=address,
            source=local.address,
        )
    )
    return replace(local, address=address)


def arithmetic(
    asm: Bm1684xAssembler,
    operation: ArithmeticOp,
    shape: Shape4,
    result: Operand,
    left: Operand | Scalar,
    right: Operand | Scalar | None = None,
    *,
    third: Operand | Scalar | None = None,
    rounding: Rounding = Rounding.HALF_TO_EVEN,
    iterations: int = 0,
) -> None:
    """Record an AR command, or several where an explicit stride exceeds its field."""
    lanes = asm.target.lanes
    command = Arithmetic(
        operation=operation,
        shape=shape,
        result=_trimmed(result, shape, lanes),
        left=_trimmed(left, shape, lanes),
        right=_trimmed(right, shape, lanes),
        third=third,
        rounding=rounding,
        iterations=iterations,
        target=asm.target,
    )
    for part in _parts(command):
        asm.record(part)


def convert(asm: Bm1684xAssembler, shape: Shape4, result: Operand, source: Operand) -> None:
    """Record a copy, or a cast where the types differ. AR CAST between equal float types would round to whole
    numbers.
    """
    operation = ArithmeticOp.COPY if source.dtype is result.dtype else ArithmeticOp.CAST
    arithmetic(asm, operation, shape, result, source)


def part_from(whole: Operand, shape: Shape4, target: Target, *, slot: int = 0, row: int = 0) -> Operand:
    """The rest of a tensor of `shape` from a slot of lanes and a row onward, with the strides of the whole."""
    strides = whole.strides(shape, target)
    offset = slot * strides[1] + row * strides[2]
    return Operand(whole.address + offset * whole.dtype.bytes, whole.dtype, strides)


def _trimmed(source: SourceT, shape: Shape4, lanes: int) -> SourceT:
    """Set explicit strides of extent 1 to 0."""
    if not isinstance(source, Operand) or not isinstance(source.layout, tuple):
        return source
    counts = (shape[0], -(-shape[1] // lanes), shape[2], shape[3])
    n, c, h, w = (step if count > 1 else 0 for step, count in zip(source.layout, counts, strict=True))
    return replace(source, layout=(n, c, h, w))


def _tensors(command: Arithmetic) -> list[Operand]:
    return [source for source in (command.result, command.left, command.right) if isinstance(source, Operand)]


def _parts(command: Arithmetic) -> list[Arithmetic]:
    """Split into one command per batch, or per group of channels, while a stride exceeds its field."""
    n, c, h, w = command.shape
    steps = [operand.layout for operand in _tensors(command) if isinstance(operand.layout, tuple)]
    if any(step[0] > _MAX_STEP for step in steps):
        return [part for index in range(n) for part in _parts(_cut(command, (1, c, h, w), 0, index))]
    if any(step[1] > _MAX_STEP for step in steps):
        lanes = command.target.lanes
        shapes = [(n, min(lanes, c - start), h, w) for start in range(0, c, lanes)]
        return [_cut(command, shape, 1, index) for index, shape in enumerate(shapes)]
    return [command]


def _cut(command: Arithmetic, shape: Shape4, axis: int, index: int) -> Arithmetic:
    def moved(source: SourceT) -> SourceT:
        if not isinstance(source, Operand):
            return source
        strides = source.strides(command.shape, command.target)
        start = source.address + index * strides[axis] * source.dtype.bytes
        # Within one batch, a natural layout needs no batch stride; within one slot the batch stride must be kept.
        layout = source.layout if axis == 0 and not isinstance(source.layout, tuple) else strides
        return _trimmed(replace(source, address=start, layout=layout), shape, command.target.lanes)

    return replace(
        command,
        shape=shape,
        result=moved(command.result),
        left=moved(command.left),
        right=moved(command.right),
    )
