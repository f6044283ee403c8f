"""Recurrent layers: units across lanes, resident recurrent weights, one step at a time."""

from __future__ import annotations

import dataclasses
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
from tpuc_ops.tpu.recurrent_steps import GATES

from tpuc_bm1684x.assembler import Bm1684xAssembler
from tpuc_bm1684x.isa import ArithmeticOp, Conv, DType, Layout, Operand, Scalar
from tpuc_bm1684x.isa.geometry import EU_BYTES, LANE_BYTES, LANES, round_up
from tpuc_bm1684x.kernels.active import ActiveEmitter
from tpuc_bm1684x.kernels.elementwise import arithmetic
from tpuc_bm1684x.kernels.exponential import (
    COEFFICIENTS,
    COEFFICIENTS_SHAPE,
    Exponential,
    coefficients,
    exponential_scratch,
)
from tpuc_bm1684x.kernels.packing import by_lane, pack_filter, slots_of
from tpuc_bm1684x.lmem import Bm1684xLmem
from tpuc_bm1684x.operands import MAX_EXTENT, operand

Op = ArithmeticOp

MOST_STEPS = 1000
"""Maximum number of steps: a step takes up to 60 commands, and the commands of a group are counted in 16 bits."""
MOST_WEIGHT_BYTES = LANE_BYTES * 3 // 4
"""Maximum size of the recurrent weights per lane."""

_RECURRENCE, _BIAS, _H, _C = 1, 2, 3, 4


class RecurrentKernel(TileKernel[tpu.RecurrentSteps, Bm1684xAssembler]):
    """Computes all gates of a step by one 1×1 convolution; the rest is elementwise.

    Steps are the reduction axis: the states stay in scratch buffers from its first tile to its last.
    """

    def refuse(self, node: Node[tpu.RecurrentSteps]) -> str | None:
        if node.op.steps > MOST_STEPS:
            return f"at most {MOST_STEPS} steps, there are {node.op.steps}"
        rows = node.operand_types[0].dims[0]
        if node.operand_types[0].storage.name != "f32" or rows % (LANES * GATES[node.op.kind]):
            return f"gates of f32, each of a multiple of {LANES} rows"
        if self._filter_bytes(node) > MOST_WEIGHT_BYTES:
            return (
                f"a recurrence of at most {MOST_WEIGHT_BYTES} bytes per lane, this one has {self._filter_bytes(node)}"
            )
        if max(node.operand_types[0].dims) > MAX_EXTENT:
            return f"at most {MAX_EXTENT} per dimension, these gates are {node.operand_types[0].dims}"
        return None

    def _filter_bytes(self, node: Node) -> int:
        return slots_of(node.operand_types[0].dims[0]) * node.op.hidden_size * 4

    def _has(self, node: Node, index: int) -> bool:
        return len(node.operand_types) > index and not is_absent(node.operand_types[index])

    def _count(self, node: Node) -> int:
        return node.operand_types[0].dims[1] // node.op.steps

    def space(self, node: Node) -> Space:
        def view(rows: int, columns: int) -> View:
            return View((1, rows, 1, columns))

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
        boxes[0] = Box((0, 0, 0, first * count), (1, node.operand_types[0].dims[0], 1, (end - first) * count))
        return boxes

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",) * len(node.result_types))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        found = [PackedConstant("filter"), COEFFICIENTS]
        if self._has(node, _BIAS):
            found.insert(1, PackedConstant("bias", alignment=4))
        return found

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        if name == COEFFICIENTS.name:
            return COEFFICIENTS_SHAPE
        return LANES, self._filter_bytes(node) if name == "filter" else slots_of(node.operand_types[0].dims[0]) * 4

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Array | None]) -> Array:
        if name == COEFFICIENTS.name:
            return coefficients()
        array = arrays[_RECURRENCE if name == "filter" else _BIAS]
        assert array is not None
        if name == "filter":
            return pack_filter(
                as_stored(array, node.operand_types[_RECURRENCE]).astype(np.float32)[:, :, None, None], 1
            )
        return by_lane(array.reshape(-1, 1).astype(np.float32))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        rows, count = node.operand_types[0].dims[0], self._count(node)
        padded = rows // GATES[node.op.kind]
        lmem = Bm1684xLmem()

        def size(channels: int) -> int:
            return lmem.tensor_bytes("aligned", (1, channels, 1, count), 4)

        states = [Scratch("h", size(padded)), Scratch("c", size(padded)), Scratch("gates", size(rows))]
        return (*states, *exponential_scratch((1, max(rows - padded, padded), 1, count)))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: Bm1684xAssembler) -> None:
        layer = _Layer.of(node, placed, asm)
        if phase.starts:
            for index, state in ((_H, layer.h), (_C, layer.c)):
                layer.copy(state, layer.padded, Scalar.of(0.0, DType.F32))
                if self._has(node, index):
                    layer.copy(state, node.op.hidden_size, operand(placed.operand(index)))
        first, end = self._steps(node, placed.tile)
        x, y = placed.operand(0), placed.result
        for step in range(first, end)[:: -1 if node.op.reverse else 1]:
            layer.step(layer.part(operand(x), x.shape, step - first))
            layer.copy(layer.part(operand(y), y.shape, step), node.op.hidden_size, layer.h)
        if phase.ends and node.op.kind == "LSTM":
            layer.copy(layer.part(operand(y), y.shape, node.op.steps), node.op.hidden_size, layer.c)


@dataclass(frozen=True)
class _Layer:
    """One tile, with access to its states and constants."""

    op: tpu.RecurrentSteps
    asm: Bm1684xAssembler
    placed: PlacedTile
    rows: int
    padded: int
    count: int

    @classmethod
    def of(cls, node: Node, placed: PlacedTile, asm: Bm1684xAssembler) -> _Layer:
        rows, columns = node.operand_types[0].dims
        return cls(node.op, asm, placed, rows, rows // GATES[node.op.kind], columns // node.op.steps)

    def _scratch(self, name: str) -> Operand:
        return Operand(self.placed.scratch[name].address, DType.F32)

    @property
    def h(self) -> Operand:
        return self._scratch("h")

    @property
    def c(self) -> Operand:
        return self._scratch("c")

    def gate(self, number: int) -> Operand:
        """The buffer of one gate."""
        plane = round_up(self.count * 4, EU_BYTES)
        return Operand(self._scratch("gates").address + number * self.padded // LANES * plane, DType.F32)

    def shape(self, channels: int) -> Shape4:
        return (1, channels, 1, self.count)

    def part(self, whole: Operand, shape: Shape4, step: int) -> Operand:
        """The columns of one step."""
        strides = whole.strides(shape)
        return Operand(whole.address + step * self.count * whole.dtype.bytes, whole.dtype, strides)

    def copy(self, target: Operand, channels: int, source: Operand | Scalar) -> None:
        arithmetic(self.asm, Op.COPY, self.shape(channels), target, source)

    def do(self, operation: ArithmeticOp, result: Operand, left: Operand, right: Operand, channels: int = 0) -> None:
        arithmetic(self.asm, operation, self.shape(channels or self.padded), result, left, right)

    def activate(self, target: Operand, source: Operand, channels: int, function: str) -> None:
        shape = self.shape(channels)
        exponential = Exponential.at(self.asm, shape, self.placed.scratch, self.placed.constants)
        emitter = ActiveEmitter(self.asm, shape, source, target, exponential, ())
        if function == "sigmoid":
            emitter.sigmoid()
        else:
            emitter.tanh()

    def of_h(self, source: Operand, first: int, gates: int) -> None:
        """The recurrent part of a range of gates, including the bias."""
        slots = first * self.padded // LANES
        filters = self.placed.constants["filter"].address + slots * self.op.hidden_size * 4
        bias = None
        if "bias" in self.placed.constants:
            bias = Operand(self.placed.constants["bias"].address + slots * 4, DType.F32, Layout.COMPACT)
        self.asm.record(
            Conv(
                result=self.gate(first),
                result_shape=self.shape(gates * self.padded),
                input=source,
                input_shape=(self.op.hidden_size, 1, self.count),
                weight=Operand(filters, DType.F32, Layout.COMPACT),
                bias=bias,
            )
        )

    def step(self, inputs: Operand) -> None:
        """Compute the next states from the input part of the gates."""
        match self.op.kind:
            case "LSTM":
                self._lstm(inputs)
            case "GRU":
                self._gru(inputs)
            case _:
                self._rnn(inputs)

    def _lstm(self, inputs: Operand) -> None:
        i, o, f, g = (self.gate(number) for number in range(4))
        self.of_h(self.h, 0, 4)
        self.do(Op.ADD, i, i, inputs, self.rows)
        self.activate(i, i, 3 * self.padded, "sigmoid")
        self.activate(g, g, self.padded, "tanh")
        self.do(Op.MUL, i, i, g)
        self.do(Op.MUL, f, f, self.c)
        self.do(Op.ADD, self.c, i, f)
        self.activate(g, self.c, self.padded, "tanh")
        self.do(Op.MUL, self.h, o, g)

    def _gru(self, inputs: Operand) -> None:
        z, r, n = (self.gate(number) for number in range(3))
        before = self.op.linear_before_reset
        self.of_h(self.h, 0, 3 if before else 2)
        self.do(Op.ADD, z, z, inputs, 2 * self.padded)
        self.activate(z, z, 2 * self.padded, "sigmoid")
        if before:
            self.do(Op.MUL, n, n, r)
        else:
            self.do(Op.MUL, self.c, r, self.h)
            self.of_h(self.c, 2, 1)
        self.do(Op.ADD, n, n, self._gate_of(inputs, 2))
        self.activate(n, n, self.padded, "tanh")
        self.do(Op.SUB, self.h, self.h, n)
        self.do(Op.MUL, self.h, self.h, z)
        self.do(Op.ADD, self.h, self.h, n)

    def _rnn(self, inputs: Operand) -> None:
        gate = self.gate(0)
        self.of_h(self.h, 0, 1)
        self.do(Op.ADD, gate, gate, inputs)
        if self.op.activation == "Tanh":
            self.activate(self.h, gate, self.padded, "tanh")
        else:
            arithmetic(self.asm, Op.MAX, self.shape(self.padded), self.h, gate, Scalar.of(0.0, DType.F32))

    def _gate_of(self, inputs: Operand, number: int) -> Operand:
        """One gate of the inputs, whole slots further on."""
        assert not isinstance(inputs.layout, Layout)
        offset = number * self.padded // LANES * inputs.layout[1] * inputs.dtype.bytes
        return dataclasses.replace(inputs, address=inputs.address + offset)
