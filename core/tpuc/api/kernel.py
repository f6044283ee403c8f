"""Kernels: how a chip runs a TPU op on tiles in local memory (LMEM), or as strided moves.

The group scheduler owns loads, stores, addresses and the order of tiles; a kernel only describes what a tile needs and
emits the compute instructions. Kernels see all tensors as four-dimensional views (n, c, h, w); channels lie across
lanes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias, TypeVar

from tpuc.ir import F32, Node, Op, ScalarType

if TYPE_CHECKING:
    import numpy.typing as npt

    from tpuc.api.chip import Assembler

    Array: TypeAlias = npt.NDArray[Any]

OpT = TypeVar("OpT", bound=Op)
AssemblerT = TypeVar("AssemblerT", bound="Assembler")
Shape4: TypeAlias = tuple[int, int, int, int]
Pads: TypeAlias = tuple[int, int, int, int]  # top, left, bottom, right
NO_PADS: Pads = (0, 0, 0, 0)
HostArgument: TypeAlias = "bool | int | float | str"
"""An argument of a function of the chip's runtime."""


@dataclass(frozen=True)
class View:
    """A tensor as a kernel sees it: extents n, c, h, w and, when it is not dense, element strides in DDR."""

    shape: Shape4
    strides: Shape4 | None = None

    @property
    def element_strides(self) -> Shape4:
        """Strides in elements; dense row-major unless given."""
        if self.strides is not None:
            return self.strides
        _, c, h, w = self.shape
        return (c * h * w, h * w, w, 1)


@dataclass(frozen=True)
class Axis:
    """One loop of the op. `granularity`: tile sizes are multiples of it (or the whole); `minimum`: never smaller;
    `limit`: never larger, 0 for any size.

    A reduction axis is innermost: its tiles of one result are visited first, middle, last.
    """

    name: str
    size: int
    reduction: bool = False
    granularity: int = 1
    minimum: int = 1
    limit: int = 0

    @property
    def splittable(self) -> bool:
        """True when the axis can be split."""
        return self.size > max(self.granularity, self.minimum)


@dataclass(frozen=True)
class Space:
    """The iteration space: axes from the outermost loop to the innermost, and the view of every operand and result.

    Operands that never come to LMEM as tensors (absent ones, and weights packed by a `PackedConstant`) have view None.
    A constant operand with a view is stored densely in DDR and loaded by parts like a computed one. Axes called n, c,
    h, w run over the dimensions of that name of the results. `is_wider`: its lanes only save compute time.
    """

    axes: tuple[Axis, ...]
    operands: tuple[View | None, ...]
    results: tuple[View, ...]
    is_wider: bool = field(default=False, kw_only=True)

    def axis(self, name: str) -> Axis | None:
        """The axis called `name`."""
        return next((axis for axis in self.axes if axis.name == name), None)


@dataclass(frozen=True)
class Tile:
    """A part of the space: `[start, stop)` per axis, in the order of the space's axes."""

    names: tuple[str, ...]
    starts: tuple[int, ...]
    stops: tuple[int, ...]

    def range(self, name: str, default: int = 1) -> tuple[int, int]:
        """`(start, stop)` along an axis; `(0, default)` when the space has no such axis."""
        if name in self.names:
            index = self.names.index(name)
            return self.starts[index], self.stops[index]
        return 0, default

    def size(self, name: str, default: int = 1) -> int:
        """Extent along an axis."""
        start, stop = self.range(name, default)
        return stop - start


@dataclass(frozen=True)
class Box:
    """Part of a view: `start` and `shape` per dimension, and the zero padding that remains at its border."""

    start: Shape4
    shape: Shape4
    padding: Pads = NO_PADS


def window(start: int, stop: int, stride: int, extent: int, pad_before: int, limit: int) -> tuple[int, int, int, int]:
    """Input rows that output rows `[start, stop)` of a sliding window read.

    `extent`: rows of the (dilated) window, `pad_before`: padding before row 0, `limit`: rows of the input. Returns
    `(first, end, pad_before, pad_after)` with the padding that remains at the borders of this part. Trailing rows that
    no further window reaches are included: whole tensors stay whole, which suits transfers, and no result changes.
    """
    first = start * stride - pad_before
    end = (stop - 1) * stride - pad_before + extent
    if 0 < limit - end < stride:
        end = limit
    clipped_first, clipped_end = max(first, 0), min(end, limit)
    if clipped_end <= clipped_first:  # nothing but padding: one row keeps the shapes legal
        clipped_first = min(max(first, 0), limit - 1)
        clipped_end = clipped_first + 1
    return clipped_first, clipped_end, max(clipped_first - first, 0), max(end - clipped_end, 0)


class Phase(enum.Enum):
    """The position of a tile in its reduction."""

    ONLY = "only"
    FIRST = "first"
    MIDDLE = "middle"
    LAST = "last"

    @property
    def starts(self) -> bool:
        """The tile is the first of its reduction."""
        return self in (Phase.ONLY, Phase.FIRST)

    @property
    def ends(self) -> bool:
        """The result is complete after this tile."""
        return self in (Phase.ONLY, Phase.LAST)


@dataclass(frozen=True)
class PackedConstant:
    """Packed constants of a kernel (filters, biases, quantization tables), one block per tile of `axes`.

    A block is bytes per lane; `broadcast` blocks hold one lane's bytes that go to every lane. `alignment` in bytes
    within a lane, 0 for that of local memory; constants of a kernel lie behind one another in its order.
    """

    name: str
    axes: tuple[str, ...] = ()
    broadcast: bool = False
    alignment: int = 0


@dataclass(frozen=True)
class Scratch:
    """Working memory of a tile, in bytes per lane. It lives from the first to the last phase of a reduction.

    With `above_results` it has a higher address than the tile's results.
    """

    name: str
    bytes_per_lane: int
    above_results: bool = False


@dataclass(frozen=True)
class LocalTensor:
    """A tensor in LMEM: `address` is the byte offset within each lane; channel 0 lies in lane 0.

    `strides`: in elements, set where it is part of a larger tensor and differs from its layout's strides.
    """

    address: int
    shape: Shape4
    layout: str
    element: ScalarType
    padding: Pads = NO_PADS
    strides: Shape4 | None = None


@dataclass(frozen=True)
class LocalBlock:
    """Bytes in LMEM: `bytes_per_lane` at the same offset of lanes `[0, lanes)`."""

    address: int
    bytes_per_lane: int
    lanes: int


@dataclass(frozen=True)
class PlacedTile:
    """A tile with all its buffers in LMEM. Absent operands and operands without a view are None."""

    tile: Tile
    operands: tuple[LocalTensor | None, ...]
    results: tuple[LocalTensor, ...]
    constants: Mapping[str, LocalBlock] = field(default_factory=dict[str, LocalBlock])
    scratch: Mapping[str, LocalBlock] = field(default_factory=dict[str, LocalBlock])

    @property
    def result(self) -> LocalTensor:
        """The first result."""
        return self.results[0]

    def operand(self, index: int) -> LocalTensor:
        """An operand that must be present."""
        local = self.operands[index]
        assert local is not None, f"operand {index} has no view"
        return local


@dataclass(frozen=True)
class DdrTensor:
    """Elements in DDR: byte address of the first, extents, element strides."""

    address: int
    shape: Shape4
    strides: Shape4
    element: ScalarType


@dataclass(frozen=True)
class Layouts:
    """LMEM layout names of the chip, one per operand (ignored where there is no view) and one per result.

    `strided`: operands that the kernel accepts with arbitrary strides, as parts of larger tensors; `strided_results`:
    results that it writes with arbitrary strides, from an aligned address.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    strided: frozenset[int] = frozenset()
    strided_results: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Candidate:
    """One way to run a node: a kernel, and the iteration space that it works in."""

    kernel: TileKernel[Any, Any]
    space: Space


class TileKernel(Generic[OpT, AssemblerT]):
    """Base of kernels that work on tiles in LMEM, for an op and the assembler of a chip. One instance serves all nodes:
    keep no state.
    """

    def refuse(self, node: Node[OpT]) -> str | None:
        """Why this chip cannot run the node, in a sentence without a full stop; None if it can."""
        return None

    def space(self, node: Node[OpT]) -> Space:
        """The iteration space of the node."""
        raise NotImplementedError

    def kernels(self, node: Node[OpT]) -> Sequence[Candidate]:
        """The ways to run a supported node, the best for a lone op first; planning takes one of them.

        A value may be resident in local memory where def and use have the same view. Default: this kernel in `space`.
        """
        return (Candidate(self, self.space(node)),)

    def tiling_key(self, node: Node[OpT]) -> Hashable:
        """Nodes with equal keys share the result of the tiling search: the attributes that decide extents, halos and
        sizes of constants, without values. Default: the op with all its attributes.
        """
        return node.op

    def reads(self, node: Node[OpT], space: Space, tile: Tile) -> Sequence[Box | None]:
        """The part of each operand that a tile reads, None for operands it does not read. Default: the tile's own n, c,
        h, w, with operand extents of 1 read whole (broadcast).
        """
        return [default_box(view, tile) if view is not None else None for view in space.operands]

    def layouts(self, node: Node[OpT]) -> Layouts:
        """Layouts of operands and results in LMEM. Default: `aligned` for all."""
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",) * len(node.result_types))

    def constants(self, node: Node[OpT]) -> Sequence[PackedConstant]:
        """The packed constants."""
        return ()

    def constant_shape(self, node: Node[OpT], name: str, tile: Tile) -> tuple[int, int]:
        """`(lanes, bytes per lane)` of a constant's block for a tile; lanes is 1 for broadcast blocks."""
        raise NotImplementedError

    def pack(self, node: Node[OpT], name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        """A constant's block for a tile: uint8 of exactly `constant_shape`.

        `arrays` are the node's constant operands by position, None where the operand is computed.
        """
        raise NotImplementedError

    def scratch(self, node: Node[OpT], tile: Tile) -> Sequence[Scratch]:
        """Working memory for a tile."""
        return ()

    def emit(self, node: Node[OpT], placed: PlacedTile, phase: Phase, asm: AssemblerT) -> None:
        """Append the compute instructions of one tile to the chip's assembler."""
        raise NotImplementedError


@dataclass(frozen=True)
class Move:
    """Copy a strided view of operand `operand` into a strided view of the result; offsets and strides in elements.

    With `fill` nothing is read: every element of the target view becomes that stored value.
    """

    operand: int
    shape: Shape4
    source_offset: int
    source_strides: Shape4
    target_offset: int
    target_strides: Shape4
    fill: float | None = None


@dataclass(frozen=True)
class RowMove(Move):
    """Gather or scatter of whole rows by an int32 index operand; rows lie along h, with extent w.

    Gather: target row i is source row `index[c, i]`, or 0 where that row does not exist. With `scatters`, source row i
    is written to target row `index[c, i]` and skipped where that row does not exist. `shape` is the moved part, (1, c,
    rows, w); `rows` is the number of indexable rows. An index stride of 0 for c shares one index.
    """

    index: int = 0
    index_offset: int = 0
    index_strides: tuple[int, int] = (0, 1)
    rows: int = 1
    scatters: bool = False


class MoveKernel(Generic[OpT]):
    """Base of kernels that only move data (Permute, Concat, Slice, Pad, Reshape)."""

    def refuse(self, node: Node[OpT]) -> str | None:
        """Why this chip cannot run the node; None if it can."""
        return None

    def is_alias(self, node: Node[OpT]) -> bool:
        """True when the result has the bytes of the first operand, at its address: it needs no instruction."""
        return False

    def local(self, node: Node[OpT]) -> TileKernel[Any, Any] | None:
        """The same move in local memory, from a resident operand to a resident result; None if impossible."""
        return None

    def moves(self, node: Node[OpT]) -> Sequence[Move]:
        """The copies that produce the result."""
        return ()


class CpuRoutine(Generic[OpT]):
    """Base of cells that leave a node to a function of the chip's runtime on the host processor.

    The function reads and writes DDR tensors and computes the op's `evaluate`.
    """

    function: ClassVar[str]
    """Its name in the runtime."""
    integers: ClassVar[frozenset[int]] = frozenset()
    """Positions of constant operands that the function reads as 32-bit integers."""
    index_inputs: ClassVar[frozenset[int]] = frozenset()
    """Positions of operands that the function reads as 32-bit integers and that are integer network inputs."""
    storage: ClassVar[ScalarType] = F32
    """The element type of numbers that the function reads and writes."""
    order: ClassVar[tuple[int, ...]] = ()
    """Positions of the operands in the function's order, where it differs from the op's; `shapes` is not reordered."""
    integer_results: ClassVar[frozenset[int]] = frozenset()
    """Positions of results that the function writes as 32-bit integers."""

    def refuse(self, node: Node[OpT]) -> str | None:
        """Why the function cannot compute the node; None if it can."""
        return None

    def stored(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A constant converted to the weights' `storage`; only called where that is not float32."""
        return array

    def arguments(self, node: Node[OpT]) -> Mapping[str, HostArgument]:
        """Arguments of the function besides its tensors."""
        return {}

    def shapes(self, node: Node[OpT]) -> tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]:
        """Extents of operands and results as passed to the function."""
        return [type_.dims for type_ in node.operand_types], [type_.dims for type_ in node.result_types]


class KernelChoice(Generic[OpT]):
    """Base of cells that choose between several kernels for the nodes of one op."""

    def kernel(self, node: Node[OpT]) -> TileKernel[Any, Any] | MoveKernel[Any] | CpuRoutine[Any]:
        """The kernel of a node."""
        raise NotImplementedError


def default_box(view: View, tile: Tile) -> Box:
    """The part of a view under a tile's n, c, h, w; extents of 1 are broadcast."""
    (n, n1), (c, c1), (h, h1), (w, w1) = (
        (0, 1) if extent == 1 else tile.range(name, extent) for name, extent in zip("nchw", view.shape, strict=True)
    )
    return Box((n, c, h, w), (n1 - n, c1 - c, h1 - h, w1 - w))


def elementwise_view(shape: Sequence[int]) -> Shape4:
    """Any dense shape as n, c, h, w: up to four dimensions padded at the end, more folded into w."""
    dims = (1, *shape) if len(shape) < 2 else tuple(shape)
    n, c, h, *rest = (*dims, 1, 1)
    return (n, c, h, math.prod(rest))


def broadcast_views(operands: Sequence[Sequence[int]], result: Sequence[int]) -> tuple[Shape4, ...]:
    """Operands of any shapes and, last, their result as n, c, h, w, so that each extent is the result's or 1.

    Shapes are aligned at the last dimension, as in broadcasting. Beyond four dimensions, adjacent dimensions repeated
    by the same operands are merged; where more than four remain, some view has an extent that is neither.
    """
    rank = len(result)
    dims = [(1,) * (rank - len(shape)) + tuple(shape) for shape in (*operands, result)]
    views = tuple(elementwise_view(shape) for shape in dims)
    if all(own in (1, whole) for view in views for own, whole in zip(view, views[-1], strict=True)):
        return views
    runs: list[tuple[tuple[bool, ...], list[int]]] = []
    for axis, extent in enumerate(result):
        repeats = tuple(shape[axis] == 1 for shape in dims)
        if runs and (extent == 1 or runs[-1][0] == repeats):
            runs[-1][1].append(axis)
        elif extent > 1:
            runs.append((repeats, [axis]))
    if len(runs) > 4:
        return views
    merged = [[math.prod(shape[axis] for axis in axes) for _, axes in runs] for shape in dims]
    return tuple(_from_runs(shape) for shape in merged)


def _from_runs(dims: Sequence[int]) -> Shape4:
    """Two to four merged dimensions as n, c, h, w, the first of few as channels."""
    match dims:
        case [c, w]:
            return (1, c, 1, w)
        case [c, h, w]:
            return (1, c, h, w)
        case _:
            return elementwise_view(dims)
