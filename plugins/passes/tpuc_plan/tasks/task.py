"""A TPU op with its kernel, its tiles, and the loads of each tile."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias

from tpuc.api import (
    NO_PADS,
    Box,
    BrokenPromise,
    Candidate,
    Chip,
    CpuRoutine,
    DdrTensor,
    LmemModel,
    LocalTensor,
    Move,
    Node,
    Operation,
    PackedConstant,
    Pads,
    Phase,
    ScalarType,
    Scratch,
    Shape4,
    Space,
    Tile,
    TileKernel,
    View,
)

from tpuc_plan.planners.alignment import align
from tpuc_plan.tasks.plan import Residency, Stripes, TilePlan


@dataclass(frozen=True, eq=False)
class MoveTask:
    """An operation that only moves data in DDR."""

    operation: Operation
    node: Node
    moves: Sequence[Move]


@dataclass(frozen=True, eq=False)
class HostTask:
    """An operation that the chip's runtime computes on the host, from DDR to DDR."""

    operation: Operation
    node: Node
    routine: CpuRoutine[Any]


@dataclass(frozen=True)
class Side:
    """An operand or a result as a kernel sees it. Two sides of one value are equal if the kernels agree on its layout.

    `strided`: the kernel accepts parts with any strides, at multiples of `alignment`.
    """

    view: View
    layout: str
    element: ScalarType = field(compare=False)
    lmem: LmemModel = field(compare=False)
    strided: bool = field(compare=False)
    alignment: int = field(compare=False)

    @property
    def shape(self) -> Shape4:
        """Extents of the whole tensor."""
        return self.view.shape

    @property
    def whole(self) -> Box:
        """The whole tensor as a box."""
        return Box((0, 0, 0, 0), self.view.shape)

    def agrees(self, other: Side | None) -> bool:
        """True if both place a value alike in local memory: in equal views, or in views that only count batches and
        channels, or rows and columns, differently, where the channels of a batch fill all lanes, and rows have no gaps.
        """
        return other is not None and (self == other or (self.layout == other.layout and self.place == other.place))

    @property
    def place(self) -> View:
        """The view, with all batches in one and all rows in one where that is the same layout."""
        if self.view.strides is not None:
            return self.view
        n, c, h, w = self.shape
        if c % self.lmem.lanes == 0:
            n, c = 1, n * c
        row = (1, 1, 1, h * w)
        return View((n, c, *row[2:]) if self.lane_bytes((1, 1, h, w)) == self.lane_bytes(row) else (n, c, h, w))

    def lane_bytes(self, shape: Shape4) -> int:
        """Return the bytes per lane in local memory of a part with these extents."""
        return self.lmem.tensor_bytes(self.layout, shape, self.element.bits // 8)

    def local(self, shape: Shape4, padding: Pads = NO_PADS, address: int = 0) -> LocalTensor:
        """Return a part in local memory."""
        return LocalTensor(address, shape, self.layout, self.element, padding)

    def ddr(self, box: Box) -> DdrTensor:
        """Return a part in DDR; its address is relative to the value's."""
        strides = self.view.element_strides
        offset = sum(start * stride for start, stride in zip(box.start, strides, strict=True))
        return DdrTensor(offset * (self.element.bits // 8), box.shape, strides, self.element)

    def part(self, whole: Shape4, start: Shape4, shape: Shape4) -> tuple[int, Shape4 | None] | None:
        """Return the offset in bytes of a part of a tensor in local memory, with strides if they differ from the
        layout's; None if the kernel cannot address it.
        """
        item = self.element.bits // 8
        offset = self.lmem.part_offset(self.layout, whole, item, start, shape)
        if offset is not None:
            return offset, None
        part = self.lmem.part_strides(self.layout, whole, item, start, shape) if self.strided else None
        return None if part is None or part[0] % self.alignment else part


def checked_boxes(kernel: TileKernel[Any, Any], node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
    """Return the part of each operand that a tile reads; raises BrokenPromise for parts outside the operands."""
    boxes = kernel.reads(node, space, tile)
    subject = f"kernel of {node.op.name} '{node.name}': `reads` gives"
    if len(boxes) != len(space.operands):
        expected = f"the op has {len(space.operands)} operands; give a Box or None for each"
        raise BrokenPromise(f"{subject} {len(boxes)} parts, {expected}", kernel)
    for index, (box, view) in enumerate(zip(boxes, space.operands, strict=True)):
        if box is None or view is None:
            continue
        ends = [first + extent for first, extent in zip(box.start, box.shape, strict=True)]
        if min(box.start) < 0 or any(end > extent for end, extent in zip(ends, view.shape, strict=True)):
            part = f"{box.start} to {tuple(ends)} of operand {index}, which has {view.shape}"
            raise BrokenPromise(f"{subject} {part}; keep to the operand and leave the rest to `padding`", kernel)
    return boxes


class KernelFacts:
    """What a candidate states about its node independent of the tiling; each question is asked once. `view`: index of
    the candidate.
    """

    def __init__(self, node: Node, candidate: Candidate, chip: Chip, view: int = 0) -> None:
        self.node = node
        self.kernel = kernel = candidate.kernel
        self.space: Space = candidate.space
        self.chip = chip
        self.view = view
        layouts, lmem = kernel.layouts(node), chip.lmem
        self.operands = tuple(
            None
            if view is None
            else Side(view, layouts.operands[index], type_.storage, lmem, index in layouts.strided, 1)
            for index, (view, type_) in enumerate(zip(self.space.operands, node.operand_types, strict=True))
        )
        self.results = tuple(
            Side(view, layout, type_.storage, lmem, index in layouts.strided_results, lmem.alignment)
            for index, (view, layout, type_) in enumerate(
                zip(self.space.results, layouts.results, node.result_types, strict=True)
            )
        )
        self.constants: tuple[PackedConstant, ...] = tuple(kernel.constants(node))
        self._axes = {constant.name: constant.axes for constant in self.constants}
        self._shapes: dict[Any, tuple[int, int]] = {}
        self._boxes: dict[Tile, Sequence[Box | None]] = {}
        self._scratch: dict[Tile, Sequence[Scratch]] = {}
        self.resident: dict[tuple[int, tuple[str, ...]], tuple[TileTask, frozenset[int]] | None] = {}
        """Results of `resident_tiling` by scratch fraction and timing profiles."""

    @property
    def looks(self) -> Hashable:
        """Key that is equal for nodes of one op with the same types that a kernel tiles alike."""
        types = tuple((type_.shape, type_.storage) for type_ in (*self.node.operand_types, *self.node.result_types))
        return self.node.op.name, type(self.kernel), types, self.kernel.tiling_key(self.node)

    def constant_shape(self, name: str, tile: Tile) -> tuple[int, int]:
        """As the kernel's `constant_shape`; cached, as it depends only on the extents along the constant's axes."""
        key = (name, *(tile.size(axis) for axis in self._axes[name]))
        if key not in self._shapes:
            self._shapes[key] = self.kernel.constant_shape(self.node, name, tile)
        return self._shapes[key]

    def boxes(self, tile: Tile) -> Sequence[Box | None]:
        """Return the part of each operand that a tile reads."""
        if tile not in self._boxes:
            self._boxes[tile] = checked_boxes(self.kernel, self.node, self.space, tile)
        return self._boxes[tile]

    def scratch(self, tile: Tile) -> Sequence[Scratch]:
        """Return the scratch buffers of a tile."""
        if tile not in self._scratch:
            self._scratch[tile] = self.kernel.scratch(self.node, tile)
        return self._scratch[tile]


@dataclass(frozen=True, eq=False)
class TileTask:
    """An operation under one tiling. `sizes`: tile extent by axis name. `stripes`: None outside of cascades.

    `cores`: how many cores compute its tiles apart, or the stripes of its cascade. `share`: the core of this part, None
    for the whole operation.
    """

    operation: Operation
    facts: KernelFacts
    sizes: Mapping[str, int]
    residency: Residency
    stripes: Stripes | None = None
    cores: int = 1
    share: int | None = None

    @property
    def node(self) -> Node:
        """The operation as the kernel sees it."""
        return self.facts.node

    @property
    def kernel(self) -> TileKernel[Any, Any]:
        """The kernel that computes the tiles."""
        return self.facts.kernel

    @property
    def chip(self) -> Chip:
        """The target chip."""
        return self.facts.chip

    @property
    def space(self) -> Space:
        """The kernel's iteration space."""
        return self.facts.space

    @property
    def results(self) -> Sequence[Side]:
        """The results as the kernel sees them."""
        return self.facts.results

    def operand(self, index: int) -> Side:
        """Return an operand that the kernel loads, as it sees it."""
        side = self.facts.operands[index]
        assert side is not None
        return side

    @cached_property
    def constant_groups(self) -> tuple[tuple[PackedConstant, ...], ...]:
        """Constants that one transfer loads: they vary over the same axes of this tiling."""
        split = {axis.name for axis in self.space.axes if self.sizes[axis.name] < axis.size}
        groups: dict[tuple[tuple[str, ...], bool], list[PackedConstant]] = {}
        for constant in self.facts.constants:
            axes = tuple(axis.name for axis in self.space.axes if axis.name in constant.axes and axis.name in split)
            groups.setdefault((axes, constant.broadcast), []).append(constant)
        return tuple(tuple(group) for group in groups.values())

    @cached_property
    def tiles(self) -> tuple[Tile, ...]:
        """All tiles in loop order, the last axis fastest."""
        return tuple(tiles_of(self.space, self.sizes))

    @cached_property
    def own_tiles(self) -> tuple[Tile, ...]:
        """The tiles of this part. Tiles of one reduction stay together."""
        if self.share is None:
            return self.tiles
        whole: list[list[Tile]] = []
        for tile in self.tiles:
            if self.phase(tile).starts:
                whole.append([])
            whole[-1].append(tile)
        return tuple(tile for index in self.part_of(len(whole)) for tile in whole[index])

    def part_of(self, count: int) -> range:
        """Return which of `count` things that cores compute apart are in this part."""
        if self.share is None:
            return range(count)
        return range(*(-(-count * share // self.cores) for share in (self.share, self.share + 1)))

    def shared(self, share: int) -> TileTask:
        """Return the part that a core computes."""
        return replace(self, share=share)

    def with_sizes(self, sizes: Mapping[str, int]) -> TileTask:
        """Return the operation under another tiling."""
        return TileTask(self.operation, self.facts, sizes, self.residency, None, self.cores, self.share)

    def planned(self, plan: TilePlan) -> TileTask:
        """Return the operation, in the same view, under a plan."""
        sizes = dict(plan.tiling)
        return replace(self, sizes=sizes, residency=plan.residency, stripes=plan.stripes, cores=plan.cores)

    def plan(self, residency: Residency, stripes: Stripes | None = None) -> TilePlan:
        """Return the plan of this tiling."""
        return TilePlan(tuple(sorted(self.sizes.items())), self.facts.view, residency, stripes, self.cores)

    def phase(self, tile: Tile) -> Phase:
        """Return the position of a tile in its reduction."""
        first = last = True
        for axis in self.space.axes:
            if axis.reduction:
                start, stop = tile.range(axis.name)
                first = first and start == 0
                last = last and stop == axis.size
        if first and last:
            return Phase.ONLY
        return Phase.FIRST if first else Phase.LAST if last else Phase.MIDDLE

    def boxes(self, tile: Tile) -> Sequence[Box | None]:
        """Return the part of each operand that the tile reads."""
        return self.facts.boxes(tile)

    def result_box(self, tile: Tile, index: int) -> Box:
        """Return the part of a result that the tile writes: its n, c, h, w ranges."""
        extents = zip("nchw", self.space.results[index].shape, strict=True)
        (n, n1), (c, c1), (h, h1), (w, w1) = (tile.range(name, extent) for name, extent in extents)
        return Box((n, c, h, w), (n1 - n, c1 - c, h1 - h, w1 - w))

    def constant_key(self, group: Sequence[PackedConstant], tile: Tile) -> tuple[tuple[int, int], ...]:
        """Return the key of the group's block; tiles with the same key share one block."""
        axes = {name for constant in group for name in constant.axes}
        return tuple(tile.range(axis.name) for axis in self.space.axes if axis.name in axes)

    def group_layout(self, group: Sequence[PackedConstant], tile: Tile) -> tuple[int, dict[str, tuple[int, int]]]:
        """Return the bytes per lane of a group's block, and `(offset, bytes per lane)` of each constant in it."""
        at = 0
        places: dict[str, tuple[int, int]] = {}
        for constant in group:
            alignment = constant.alignment or self.chip.lmem.alignment
            at = align(at, alignment)
            _, size = self.facts.constant_shape(constant.name, tile)
            places[constant.name] = (at, size)
            at += size
        return at, places

    def group_lanes(self, group: Sequence[PackedConstant], tile: Tile) -> int:
        """Return the number of lanes that a group's block covers."""
        return max(self.facts.constant_shape(constant.name, tile)[0] for constant in group)

    def scratch(self, tile: Tile) -> Sequence[Scratch]:
        """Return the scratch buffers of a tile."""
        return self.facts.scratch(tile)

    def tile_bytes(self, tile: Tile, operands: Collection[int] = (), results: Collection[int] = ()) -> int:
        """Return the bytes per lane of a tile, without the given operands and results, which lie elsewhere."""
        size = self.work_bytes(tile)
        for index in range(len(self.facts.operands)):
            if index not in operands and index not in self._constant_operands:
                size += self._operand_bytes(tile, index)
        for index, side in enumerate(self.results):
            if index not in results:
                size += side.lane_bytes(self.result_box(tile, index).shape)
        return size

    def work_bytes(self, tile: Tile) -> int:
        """Return the bytes per lane of a tile's scratch and constants, operands that are constants too: they are never
        resident.
        """
        size = sum(scratch.bytes_per_lane for scratch in self.scratch(tile))
        size += sum(self._operand_bytes(tile, index) for index in self._constant_operands)
        return size + sum(self.group_layout(group, tile)[0] for group in self.constant_groups)

    @property
    def _constant_operands(self) -> Sequence[int]:
        return [index for index, value in enumerate(self.operation.operands) if value.is_constant]

    def _operand_bytes(self, tile: Tile, index: int) -> int:
        box = self.boxes(tile)[index]
        return 0 if box is None else self.operand(index).lane_bytes(box.shape)


def tile_of(names: tuple[str, ...], ranges: Sequence[tuple[int, int]]) -> Tile:
    """Return a tile from its range along each axis."""
    return Tile(names, tuple(start for start, _ in ranges), tuple(stop for _, stop in ranges))


def tiles_of(space: Space, sizes: Mapping[str, int]) -> Iterator[Tile]:
    """Yield the tiles of the given sizes; the last one along each axis may be smaller."""
    names = tuple(axis.name for axis in space.axes)
    cuts = [
        [(start, min(start + sizes[axis.name], axis.size)) for start in range(0, axis.size, sizes[axis.name])]
        for axis in space.axes
    ]
    for ranges in itertools.product(*cuts):
        yield tile_of(names, ranges)


def tile_count(space: Space, sizes: Mapping[str, int]) -> int:
    """Return the number of tiles of the given sizes."""
    return math.prod(-(-axis.size // sizes[axis.name]) for axis in space.axes)


Task: TypeAlias = TileTask | MoveTask | HostTask
