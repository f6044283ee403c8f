"""Recurrent layers: units across lanes, resident weights, one input projection for all steps, then step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tpuc.api import (
    Axis,
    Box,
    Layouts,
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
    as_stored,
)
from tpuc_ops import tpu
from tpuc_ops.arrays import Array
from tpuc_ops.shapes import is_absent
from tpuc_ops.tpu.recurrent_steps import FILTER, GATES

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, Conv, DType, Layout, Operand, Scalar
from tpuc_bm1684x.isa.geometry import round_up
from tpuc_bm1684x.isa.target import Target
from tpuc_bm1684x.kernels.active import ActiveEmitter
from tpuc_bm1684x.kernels.common import OfChip
from tpuc_bm1684x.kernels.elementwise import arithmetic, convert
from tpuc_bm1684x.kernels.exponential import (
    COEFFICIENTS,
    COEFFICIENTS_SHAPE,
    Exponential,
    coefficients,
    exponential_scratch,
)
from tpuc_bm1684x.kernels.packing import pack_filter
from tpuc_bm1684x.operands import MAX_EXTENT, dtype_of, operand

Op = ArithmeticOp

MOST_STEPS = 1000
"""Maximum number of steps: a step takes up to 60 commands, and the commands of a group are counted in 16 bits."""

_RECURRENCE, _BIAS, _H, _C, _SUMS = 1, 2, 3, 4, 6
_PACKED = {"recurrence": _RECURRENCE, "filter": FILTER, "sums": _SUMS, "bias": _BIAS}
"""Operand index of each packed constant, in local-memory order."""
_MATRICES = ("recurrence", "filter")
PIECE_BYTES = 64
"""Largest size of one weight piece of 16-bit filters."""


def most_weight_bytes(lane_bytes: int) -> int:
    """Maximum size of recurrence and input filter per lane."""
    return lane_bytes * 3 // 4


def weight_bytes(rows: int, columns: int, item_bytes: int, lanes: int, piece_bytes: int = PIECE_BYTES) -> int:
    """Bytes per lane of a matrix with its rows across lanes."""
    row = columns * item_bytes
    return -(-rows // lanes) * (row if item_bytes == DType.F32.bytes else round_up(row, piece_bytes))


def piece_bytes(target: Target) -> int:
    """Size of one weight piece of 16-bit filters."""
    return 2 * target.packing[2]


class RecurrentKernel(OfChip, TileKernel[tpu.RecurrentSteps, Bm1684xAssembler]):
    """Projects the inputs of a tile by one convolution, then computes all gates of a step by one 1×1 convolution; the
    rest is elementwise on gates that are densely packed in each lane.

    Steps are the reduction axis: the states stay in scratch buffers from its first tile to its last.
    """

    def refuse(self, node: Node[tpu.RecurrentSteps]) -> str | None:
        if node.op.steps > MOST_STEPS:
            return f"at most {MOST_STEPS} steps, there are {node.op.steps}"
        first = node.operand_types[0].storage.name
        own = node.operand_types[FILTER].storage.name if self._has(node, FILTER) else first
        if first != own or not {own, node.operand_types[_RECURRENCE].storage.name} <= {"f32", "f16", "bf16"}:
            return f"inputs and filter of one type of floats, these are {first} and {own}"
        if self._rows(node) % (self.lanes.count * GATES[node.op.kind]):
            return f"gates of a multiple of {self.lanes.count} rows, all have {self._rows(node)}"
        size = sum(self._matrix_bytes(node, name) for name in self._names(node) if name in _MATRICES)
        most = most_weight_bytes(self.target.lane_bytes)
        if size > most:
            return f"weights of at most {most} bytes per lane, these are {size}"
        if max(node.operand_types[0].dims) > MAX_EXTENT:
            return f"at most {MAX_EXTENT} per dimension, the first operand is {node.operand_types[0].dims}"
        return None

    def _rows(self, node: Node) -> int:
        return node.operand_types[_RECURRENCE].dims[0]

    def _matrix_bytes(self, node: Node, name: str) -> int:
        type_ = node.operand_types[_PACKED[name]]
        rows, columns = type_.dims
        return weight_bytes(rows, columns, type_.storage.bits // 8, self.lanes.count, piece_bytes(self.target))

    def _has(self, node: Node, index: int) -> bool:
        return len(node.operand_types) > index and not is_absent(node.operand_types[index])

    def _names(self, node: Node) -> list[str]:
        return [name for name, index in _PACKED.items() if self._has(node, index)]

    def _count(self, node: Node) -> int:
        return node.operand_types[0].dims[0] // node.op.steps

    def space(self, node: Node) -> Space:
        def view(rows: int, units: int) -> View:
            return View((1, units, rows, 1), (rows * units, 1, units, 1))

        operands: list[View | None] = [None] * len(node.operand_types)
        operands[0] = view(*node.operand_types[0].dims)
        for index in (_H, _C):
            if self._has(node, index):
                operands[index] = view(*node.operand_types[index].dims)
        results = tuple(view(*type_.dims) for type_ in node.result_types)
        return Space((Axis("k", node.op.steps, reduction=True),), tuple(operands), results)

    def _steps(self, node: Node, tile: Tile) -> tuple[int, int]:
        """First and end of a tile's steps."""
        first, end = tile.range("k")
        total = node.op.steps
        return (total - end, total - first) if node.op.reverse else (first, end)

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        first, end = self._steps(node, tile)
        count = self._count(node)
        boxes = [Box((0, 0, 0, 0), view.shape) if view is not None else None for view in space.operands]
        boxes[0] = Box((0, 0, first * count, 0), (1, node.operand_types[0].dims[1], (end - first) * count, 1))
        return boxes

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",) * len(node.result_types))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        found = [PackedConstant(name, alignment=0 if name in _MATRICES else 4) for name in self._names(node)]
        return (*found, COEFFICIENTS)

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if name == COEFFICIENTS.name:
            return COEFFICIENTS_SHAPE
        slots = self.lanes.slots_of(self._rows(node))
        return self.lanes.count, self._matrix_bytes(node, name) if name in _MATRICES else slots * 4

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name == COEFFICIENTS.name:
            return coefficients()
        array, type_ = arrays[_PACKED[name]], node.operand_types[_PACKED[name]]
        assert array is not None
        if name in _MATRICES:
            packing = self.target.packing[type_.storage.bits // 8]
            return pack_filter(as_stored(array, type_)[:, :, None, None], packing, self.target)
        return self.lanes.by_lane(array.reshape(-1, 1).astype(np.float32))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        rows, count, lmem = self._rows(node), self._count(node), self.lmem
        padded = rows // GATES[node.op.kind]

        def aligned(channels: int, width: int = count) -> int:
            return lmem.tensor_bytes("aligned", (1, channels, 1, width), 4)

        def close(channels: int) -> Shape4:
            return (1, self.lanes.count, 1, channels // self.lanes.count * count)

        states = [Scratch(name, lmem.tensor_bytes("aligned", close(padded), 4)) for name in ("h", "c")]
        states.append(Scratch("gates", lmem.tensor_bytes("aligned", close(rows), 4)))
        states += [Scratch("read", aligned(padded)), Scratch("sum", aligned(rows))]
        if self._has(node, FILTER) or node.operand_types[0].storage.name != "f32":
            states.append(Scratch("of_x", aligned(rows, tile.size("k") * count)))
        return (*states, *exponential_scratch(close(rows), lmem))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        layer = _Layer.of(node, placed, asm)
        if phase.starts:
            for index, state in ((_H, layer.h), (_C, layer.c)):
                layer.start(state, operand(placed.operand(index)) if self._has(node, index) else None)
        first, end = self._steps(node, placed.tile)
        columns = (end - first) * layer.count
        x, y = operand(placed.operand(0)), placed.result
        if self._has(node, FILTER):
            x = layer.project(x, node.operand_types[0].dims[1], columns)
        elif x.dtype is not DType.F32:
            x = layer.widened(x, columns)
        for step in range(first, end)[:: -1 if node.op.reverse else 1]:
            layer.step(layer.part(x, columns, step - first, layer.rows))
            layer.keep(layer.part(operand(y), y.shape[2], step, layer.padded), layer.h)
        if phase.ends and node.op.kind == "LSTM":
            layer.keep(layer.part(operand(y), y.shape[2], node.op.steps, layer.padded), layer.c)


@dataclass(frozen=True)
class _Part:
    """A range of gates of one step; groups of as many units as lanes lie along h of
    `shape`.
    """

    operand: Operand
    lanes: int
    slots: int
    count: int

    @property
    def shape(self) -> Shape4:
        """The shape in lanes, slots, and sequences."""
        return (1, self.lanes, self.slots, self.count)

    def gates(self, first: int, slots: int) -> _Part:
        """Select `slots` slots starting at `first`."""
        assert not isinstance(self.operand.layout, Layout)
        offset = first * self.operand.layout[2] * self.operand.dtype.bytes
        return _Part(_moved(self.operand, offset), self.lanes, slots, self.count)


def _moved(place: Operand, offset: int) -> Operand:
    return Operand(place.address + offset, place.dtype, place.layout)


@dataclass(frozen=True)
class _Layer:
    """One tile, with access to its states and constants.

    States and gates are densely packed in each lane: slots of as many units as lanes, each with all sequences. In
    operands and results of convolutions, every slot starts a new vector.
    """

    op: tpu.RecurrentSteps
    asm: Bm1684xAssembler
    placed: PlacedTile
    rows: int
    padded: int
    count: int
    dtype: DType
    """Element type of the states that convolutions read."""

    @classmethod
    def of(cls, node: Node, placed: PlacedTile, asm: Bm1684xAssembler) -> _Layer:
        type_ = node.operand_types[_RECURRENCE]
        rows, columns = type_.dims[0], node.operand_types[0].dims[0]
        padded, count = rows // GATES[node.op.kind], columns // node.op.steps
        return cls(node.op, asm, placed, rows, padded, count, dtype_of(type_.storage))

    @property
    def lanes(self) -> int:
        """The lanes of the chip."""
        return self.asm.target.lanes

    def _scratch(self, name: str) -> Operand:
        return Operand(self.placed.scratch[name].address, DType.F32)

    @property
    def h(self) -> Operand:
        return self._scratch("h")

    @property
    def c(self) -> Operand:
        return self._scratch("c")

    @property
    def width(self) -> int:
        """Elements of one gate per lane."""
        return self.padded // self.lanes * self.count

    def gate(self, number: int) -> Operand:
        """The packed buffer of one gate; the aligned layout must start at a whole vector."""
        place = _moved(self._scratch("gates"), number * self.width * DType.F32.bytes)
        if place.address % self.asm.target.eu_bytes == 0:
            return place
        return Operand(place.address, place.dtype, (0, 0, self.width, 1))

    def part(self, whole: Operand, columns: int, step: int, rows: int) -> _Part:
        """Select the columns of one step from a tensor of `columns` columns."""
        stride = round_up(columns, self.asm.target.vector(whole.dtype.bytes))
        address = whole.address + step * self.count * whole.dtype.bytes
        place = Operand(address, whole.dtype, (0, 0, stride, 1))
        return _Part(place, self.lanes, rows // self.lanes, self.count)

    def close(self, place: Operand) -> Operand:
        """View a packed tensor as slots and sequences."""
        return Operand(place.address, place.dtype, (0, 0, self.count, 1))

    def keep(self, target: _Part, source: Operand) -> None:
        """Copy a packed state to a tensor with aligned slots."""
        convert(self.asm, target.shape, target.operand, self.close(source))

    def start(self, state: Operand, given: Operand | None) -> None:
        """Initialize a state; lanes without a unit hold 0."""
        arithmetic(self.asm, Op.COPY, (1, self.lanes, 1, self.width), state, Scalar.of(0.0, DType.F32))
        if given is None:
            return
        for slot in range(-(-self.op.hidden_size // self.lanes)):
            lanes = min(self.lanes, self.op.hidden_size - slot * self.lanes)
            target = Operand(state.address + slot * self.count * DType.F32.bytes, DType.F32, (0, 0, self.count, 1))
            stride = round_up(self.count, self.asm.target.vector(given.dtype.bytes))
            source = _moved(given, slot * stride * given.dtype.bytes)
            convert(self.asm, (1, lanes, 1, self.count), target, source)

    def do(self, operation: ArithmeticOp, result: Operand, left: Operand, right: Operand, gates: int = 1) -> None:
        arithmetic(self.asm, operation, (1, self.lanes, 1, gates * self.width), result, left, right)

    def emitter(self, target: Operand, source: Operand, gates: int = 1) -> ActiveEmitter:
        shape = (1, self.lanes, 1, gates * self.width)
        exponential = Exponential.at(self.asm, shape, self.placed.scratch, self.placed.constants)
        return ActiveEmitter(self.asm, shape, source, target, exponential, ())

    def project(self, x: Operand, inputs: int, columns: int) -> Operand:
        """Compute the input part of the gates for all steps of a tile."""
        result = self._scratch("of_x")
        self._product("filter", "sums", x, (inputs, 1, columns), result, 0, self.rows)
        return result

    def widened(self, gates: Operand, columns: int) -> Operand:
        """Convert the input part of the gates to f32."""
        result = self._scratch("of_x")
        convert(self.asm, (1, self.rows, 1, columns), result, gates)
        return result

    def of_h(self, state: Operand, first: int, gates: int) -> _Part:
        """Compute the recurrent part of a range of gates, including the bias."""
        read, result = Operand(self.placed.scratch["read"].address, self.dtype), self._scratch("sum")
        self.keep(self.part(read, self.count, 0, self.padded), state)
        rows = gates * self.padded
        self._product("recurrence", "bias", read, (self.op.hidden_size, 1, self.count), result, first, rows)
        return self.part(result, self.count, 0, rows)

    def _product(
        self, name: str, bias: str, x: Operand, extents: tuple[int, int, int], result: Operand, first: int, rows: int
    ) -> None:
        """Multiply by the rows of a resident matrix starting at gate `first`, and add the bias if there is one."""
        slots, constants = first * self.padded // self.lanes, self.placed.constants
        row = weight_bytes(self.lanes, extents[0], x.dtype.bytes, self.lanes, piece_bytes(self.asm.target))
        added = None
        if bias in constants:
            added = Operand(constants[bias].address + slots * 4, DType.F32, Layout.COMPACT)
        self.asm.record(
            Conv(
                result=result,
                result_shape=(1, rows, 1, extents[2]),
                input=x,
                input_shape=extents,
                weight=Operand(constants[name].address + slots * row, x.dtype, Layout.COMPACT),
                bias=added,
            )
        )

    def add(self, first: int, sums: _Part, inputs: _Part) -> None:
        """Add recurrent part and input part of the gates starting at `first`."""
        arithmetic(self.asm, Op.ADD, sums.shape, self.close(self.gate(first)), sums.operand, inputs.operand)

    def step(self, inputs: _Part) -> None:
        """Compute the next states from the input part of the gates."""
        match self.op.kind:
            case "LSTM":
                self._lstm(inputs)
            case "GRU":
                self._gru(inputs)
            case _:
                self._rnn(inputs)

    def _lstm(self, inputs: _Part) -> None:
        """Compute the tanh of the cell gate as 2 * sigmoid(2x) - 1 together with the other gates."""
        i, o, f, g = (self.gate(number) for number in range(4))
        self.add(0, self.of_h(self.h, 0, 4), inputs)
        own = self.emitter(g, g)
        own.do(Op.ADD, g, g, g)
        self.emitter(i, i, 4).sigmoid()
        own.do(Op.ADD, g, g, g)
        own.do(Op.SUB, g, g, 1.0)
        self.do(Op.MUL, i, i, g)
        self.do(Op.MUL, f, f, self.c)
        self.do(Op.ADD, self.c, i, f)
        self.emitter(g, self.c).tanh()
        self.do(Op.MUL, self.h, o, g)

    def _gru(self, inputs: _Part) -> None:
        z, r, n = (self.gate(number) for number in range(3))
        slots = self.padded // self.lanes
        before, others = self.op.linear_before_reset, inputs.gates(2 * slots, slots)
        sums = self.of_h(self.h, 0, 3 if before else 2)
        self.add(0, sums.gates(0, 2 * slots), inputs.gates(0, 2 * slots))
        self.emitter(z, z, 2).sigmoid()
        if before:
            own = sums.gates(2 * slots, slots)
            close = self.close(n)
            arithmetic(self.asm, Op.MUL, own.shape, close, own.operand, self.close(r))
            arithmetic(self.asm, Op.ADD, own.shape, close, close, others.operand)
        else:
            self.do(Op.MUL, self.c, r, self.h)
            self.add(2, self.of_h(self.c, 2, 1), others)
        self.emitter(n, n).tanh()
        self.do(Op.SUB, self.h, self.h, n)
        self.do(Op.MUL, self.h, self.h, z)
        self.do(Op.ADD, self.h, self.h, n)

    def _rnn(self, inputs: _Part) -> None:
        gate = self.gate(0)
        self.add(0, self.of_h(self.h, 0, 1), inputs)
        emitter = self.emitter(self.h, gate)
        if self.op.activation == "Tanh":
            emitter.tanh()
        else:
            emitter.do(Op.MAX, self.h, gate, 0.0)
