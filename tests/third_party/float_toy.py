"""The toy chip with a few commands in f32 beside its own: what a chip must have natively for all compositions to run.

An op is lowered to itself: TOP ops are the ones that have kernels here.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
from toy_chip import isa, timing
from toy_chip.assembler import ToyAssembler, operand
from toy_chip.chip import Toy
from toy_chip.container import read_file
from toy_chip.kernels import ElementwiseKernel, PermuteKernel, ReshapeKernel, parallel_axes, window_box
from toy_chip.machine import Array, Machine, windows
from toy_chip.operands import Operand, Window
from toy_chip.simulator import ToyModel
from tpuc.api import (
    Axis,
    Box,
    Instruction,
    KernelTable,
    Layouts,
    LoadedModel,
    Lowering,
    LoweringBuilder,
    LoweringNode,
    LoweringTable,
    Move,
    MoveKernel,
    Node,
    Op,
    Phase,
    PlacedTile,
    Region,
    Space,
    Tile,
    TileKernel,
    Timeline,
    Value,
    View,
    elementwise_view,
    make_timeline,
)
from tpuc_ops import top
from tpuc_ops.shapes import positive_axis

NAME = "float_toy"
LOWERINGS = LoweringTable(NAME, "top")
KERNELS = KernelTable(NAME, "top")


class Function(enum.IntEnum):
    """What `Apply` and `Rows` compute."""

    ADD, SUB, MUL, DIV, EQUAL = 0, 1, 2, 3, 4
    MAX, MIN, POWER, EXP, LOG = 5, 6, 7, 8, 9
    FLOOR, SIGMOID, TANH, SUM, MEAN = 10, 11, 12, 13, 14


BY_ELEMENT: dict[Function, Callable[[Array, Array], Array]] = {
    Function.ADD: np.add,
    Function.SUB: np.subtract,
    Function.MUL: np.multiply,
    Function.DIV: np.divide,
    Function.EQUAL: np.equal,
    Function.MAX: np.maximum,
    Function.MIN: np.minimum,
    Function.POWER: np.power,
    Function.EXP: lambda x, _: np.exp(x),
    Function.LOG: lambda x, _: np.log(x),
    Function.FLOOR: lambda x, _: np.floor(x),
    Function.SIGMOID: lambda x, _: 1 / (1 + np.exp(-x)),
    Function.TANH: lambda x, _: np.tanh(x),
}
BY_ROW: dict[Function, Callable[..., Array]] = {
    Function.MAX: np.max,
    Function.MIN: np.min,
    Function.SUM: np.sum,
    Function.MEAN: np.mean,
}


@dataclass(frozen=True)
class TwoInputs(isa.ToyInstruction):
    """Base of commands that make a tensor of two."""

    result: Operand
    left: Operand
    right: Operand

    def reads(self) -> Sequence[Region]:
        return (self.left.region, self.right.region)

    def writes(self) -> Sequence[Region]:
        return (self.result.region,)


@dataclass(frozen=True)
class Apply(TwoInputs):
    """A function of two tensors, element by element; extents of 1 are repeated."""

    opcode = 0x40
    function: Function

    def execute(self, machine: Machine) -> None:
        x, y = machine.read(self.left), machine.read(self.right)
        machine.write(self.result, BY_ELEMENT[self.function](x, y))


@dataclass(frozen=True)
class ApplyConstant(isa.OneInput):
    """A function of a tensor and a number."""

    opcode = 0x41
    function: Function
    number: float = 0.0
    reverse: bool = False

    def execute(self, machine: Machine) -> None:
        parts = machine.read(self.input), np.full(1, self.number, np.float32)
        machine.write(self.result, BY_ELEMENT[self.function](*(reversed(parts) if self.reverse else parts)))


@dataclass(frozen=True)
class Rows(isa.OneInput):
    """One number of every row along w."""

    opcode = 0x42
    function: Function

    def execute(self, machine: Machine) -> None:
        machine.write(self.result, BY_ROW[self.function](machine.read(self.input), axis=3, keepdims=True))


@dataclass(frozen=True)
class Product(TwoInputs):
    """Rows `[1, c, 1, depth]` times a matrix `[1, depth, 1, w]`, or `[1, w, 1, depth]` if `transposed`."""

    opcode = 0x43
    transposed: bool

    def execute(self, machine: Machine) -> None:
        left, right = machine.read(self.left)[0, :, 0], machine.read(self.right)[0, :, 0]
        machine.write(self.result, (left @ (right.T if self.transposed else right))[None, :, None])


@dataclass(frozen=True)
class Pick(TwoInputs):
    """The rows of `left`, `[1, rows, 1, w]`, that `right`, `[1, c, 1, 1]`, names."""

    opcode = 0x44

    def execute(self, machine: Machine) -> None:
        chosen = machine.read(self.right)[0, :, 0, 0].astype(int)
        machine.write(self.result, machine.read(self.left)[:, chosen])


@dataclass(frozen=True)
class Pool(isa.OneInput):
    """The largest element, or the mean, under each window; padding is below everything and never counts."""

    opcode = 0x45
    function: Function
    window: Window

    def execute(self, machine: Machine) -> None:
        x, places = machine.read(self.input), self.result.shape[2:]
        if self.function is Function.MAX:
            machine.write(self.result, windows(x, self.window, places, -np.inf).max(axis=(4, 5)))
            return
        counts = windows(np.ones_like(x), self.window, places, 0).sum(axis=(4, 5))
        machine.write(self.result, windows(x, self.window, places, 0).sum(axis=(4, 5)) / counts)


INSTRUCTIONS: dict[int, type[isa.ToyInstruction]] = {
    kind.opcode: kind for kind in (Apply, ApplyConstant, Rows, Product, Pick, Pool)
}


def cycles(instruction: Instruction) -> int:
    """Our commands take a cycle per element of the result; the toy's take what its manual says."""
    if isinstance(instruction, tuple(INSTRUCTIONS.values())):
        assert isinstance(instruction, (TwoInputs, isa.OneInput))
        return timing.ISSUE_CYCLES + math.prod(instruction.result.shape)
    return timing.cycles(instruction)


class FloatToyModel(ToyModel):
    """A file in the simulator."""

    @cached_property
    def _timeline(self) -> Timeline:
        return make_timeline(self._streams, cycles)


class FloatToy(Toy):
    """The toy chip and our commands."""

    description = replace(Toy.description, name=NAME, modes=("f32",))

    def cycles(self, instruction: Instruction, profile: str) -> int:
        return cycles(instruction)

    def load(self, data: bytes, source: str = "<bytes>") -> LoadedModel:
        with patch.dict(isa.INSTRUCTIONS, INSTRUCTIONS):
            return FloatToyModel(read_file(data, source), source, len(data))


# Lowerings and kernels


class Itself(Lowering[Any]):
    """The op, as it is."""

    def lower(self, node: LoweringNode, build: LoweringBuilder) -> Sequence[Value]:
        return [build(node.op, node.operands, node.result_type)]


def native(op: type[Op]) -> Callable[[Any], Any]:
    """Registers a kernel, and that the op is lowered to itself."""
    LOWERINGS.lowers(op, "f32")(Itself)
    return KERNELS.runs(op)


native(top.Permute)(PermuteKernel)
native(top.Reshape)(ReshapeKernel)


def relu_refusal(op: Any) -> str | None:
    """No command has a relu within."""
    return "a relu within has no command" if getattr(op, "do_relu", False) else None


class BinaryKernel(ElementwiseKernel):
    """Base of functions of two tensors."""

    function: Function

    def refuse(self, node: Node) -> str | None:
        if len(node.operand_types) != 2:
            return f"two operands, this one has {len(node.operand_types)}"
        if getattr(node.op, "mode", "Equal") != "Equal":
            return f"only comparisons for equality, this one is {node.op.mode}"
        return relu_refusal(node.op)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        parts = (operand(placed.result), operand(placed.operand(0)), operand(placed.operand(1)))
        asm.record(Apply(*parts, self.function))


class UnaryKernel(ElementwiseKernel):
    """Base of functions of one tensor: one command after the other."""

    def refuse(self, node: Node) -> str | None:
        return relu_refusal(node.op)

    def steps(self, op: Any) -> Sequence[tuple[Any, ...]]:
        """Function, number, and whether the number comes first."""
        raise NotImplementedError

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        source, result = operand(placed.operand(0)), operand(placed.result)
        for step in self.steps(node.op):
            asm.record(ApplyConstant(result, source, *step))
            source = result


for _op, _function in (
    (top.Add, Function.ADD),
    (top.Sub, Function.SUB),
    (top.Mul, Function.MUL),
    (top.Div, Function.DIV),
    (top.Compare, Function.EQUAL),
):
    native(_op)(type(f"{_op.__name__}Kernel", (BinaryKernel,), {"function": _function}))

_STEPS: dict[type[Op], Callable[[Any], Sequence[tuple[Any, ...]]]] = {
    top.AddConst: lambda op: [(Function.ADD, op.const_val)],
    top.SubConst: lambda op: [(Function.SUB, op.const_val, op.is_reverse)],
    top.MulConst: lambda op: [(Function.MUL, op.const_val)],
    top.Clip: lambda op: [(Function.MAX, op.min), (Function.MIN, op.max)],
    top.Pow: lambda op: [(Function.POWER, op.exponent)],
    top.Exp: lambda _: [(Function.EXP,)],
    top.Log: lambda _: [(Function.LOG,)],
    top.Floor: lambda _: [(Function.FLOOR,)],
    top.Sigmoid: lambda _: [(Function.SIGMOID,)],
    top.Tanh: lambda _: [(Function.TANH,)],
}
for _op, _steps in _STEPS.items():
    native(_op)(type(f"{_op.__name__}Kernel", (UnaryKernel,), {"steps": lambda _, op, steps=_steps: steps(op)}))


class RowsKernel(TileKernel[Any, ToyAssembler]):
    """Base of kernels whose tiles are whole rows along w, and that read some operands as a whole."""

    whole: tuple[int, ...] = ()

    def views(self, node: Node) -> Sequence[View]:
        """Of the operands that are there, and of the result."""
        raise NotImplementedError

    def space(self, node: Node) -> Space:
        *sources, result = self.views(node)
        width = result.shape[3]
        axes = (*parallel_axes(result.shape, "nch"), Axis("w", width, granularity=width))
        return Space(axes, (*sources, *(None,) * (len(node.operand_types) - len(sources))), (result,))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        boxes: list[Box | None] = []
        for index, view in enumerate(space.operands):
            if view is None:
                boxes.append(None)
            else:
                n, c, h, w = view.shape
                first, last = (0, c) if index in self.whole else tile.range("c")
                boxes.append(Box((0, first, 0, 0), (n, last - first, h, w)))
        return boxes

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",) * len(node.operand_types), ("aligned",))


@native(top.Reduce)
class ReduceKernel(RowsKernel):
    """Along the last dimensions."""

    def refuse(self, node: Node) -> str | None:
        rank = node.operand_types[0].rank
        axes = sorted(positive_axis(axis, rank) for axis in node.op.axes)
        return None if axes == list(range(rank - len(axes), rank)) else "only along the last dimensions"

    def views(self, node: Node) -> Sequence[View]:
        rows = node.result_type.size
        return View((1, rows, 1, node.operand_types[0].size // rows)), View((1, rows, 1, 1))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        function = Function[node.op.mode.removeprefix("Reduce").upper()]
        asm.record(Rows(operand(placed.result), operand(placed.operand(0)), function))


class Images(Itself):
    """Windows over images only."""

    def refuse(self, node: LoweringNode) -> str | None:
        rank = len(node.op.kernel_shape)
        return f"only 2-D windows, this one has {rank} dimensions" if rank != 2 else None


LOWERINGS.lowers(top.AvgPool, "f32")(Images)
LOWERINGS.lowers(top.MaxPool, "f32")(Images)


class PoolKernel(TileKernel[Any, ToyAssembler]):
    """Base of both kinds of pools."""

    function: Function

    def refuse(self, node: Node) -> str | None:
        if node.op.count_include_pad or node.op.ceil_mode:
            return "padding never counts, and windows do not reach beyond it"
        return relu_refusal(node.op)

    def space(self, node: Node) -> Space:
        source, result = elementwise_view(node.operand_types[0].dims), elementwise_view(node.result_type.dims)
        return Space(parallel_axes(result), (View(source),), (View(result),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        source = elementwise_view(node.operand_types[0].dims)
        return [window_box(tile, source, tile.range("c"), self._sliding(node))]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned",), ("aligned",))

    def _sliding(self, node: Node) -> Window:
        (kh, kw), (sh, sw), pads = node.op.kernel_shape, node.op.strides, node.op.pads
        return Window((kh, kw), (sh, sw), _four(pads, 0))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        x = placed.operand(0)
        sliding = replace(self._sliding(node), pads=x.padding)
        asm.record(Pool(operand(placed.result), operand(x), self.function, sliding))


for _op, _function in ((top.AvgPool, Function.MEAN), (top.MaxPool, Function.MAX)):
    KERNELS.runs(_op)(type(f"{_op.__name__}Kernel", (PoolKernel,), {"function": _function}))


@native(top.MatMul)
class MatMulKernel(RowsKernel):
    """Rows times a matrix, which every tile reads as a whole."""

    whole = (1, 2)

    def refuse(self, node: Node) -> str | None:
        if node.operand_types[1].rank != 2 or node.op.left_transpose or node.op.output_transpose:
            return "rows times one matrix"
        return relu_refusal(node.op)

    def views(self, node: Node) -> Sequence[View]:
        depth, columns = node.operand_types[0].dims[-1], node.result_type.dims[-1]
        rows = node.result_type.size // columns
        right = View((1, columns, 1, depth) if node.op.right_transpose else (1, depth, 1, columns))
        bias = (View((1, 1, 1, columns)),) if len(node.operand_types) > 2 and node.operand_types[2].size else ()
        return View((1, rows, 1, depth)), right, *bias, View((1, rows, 1, columns))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        result = operand(placed.result)
        parts = (result, operand(placed.operand(0)), operand(placed.operand(1)))
        asm.record(Product(*parts, node.op.right_transpose))
        if len(placed.operands) > 2 and placed.operands[2] is not None:
            asm.record(Apply(result, result, operand(placed.operand(2)), Function.ADD))


@native(top.Gather)
class GatherKernel(RowsKernel):
    """Rows of a table, which every tile reads as a whole."""

    whole = (0,)

    def views(self, node: Node) -> Sequence[View]:
        rows, *width = node.operand_types[0].dims
        count = node.operand_types[1].size
        columns = math.prod(width)
        return View((1, rows, 1, columns)), View((1, count, 1, 1)), View((1, count, 1, columns))

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: ToyAssembler) -> None:
        asm.record(Pick(operand(placed.result), operand(placed.operand(0)), operand(placed.operand(1))))


def _strides(dims: Sequence[int]) -> list[int]:
    return [math.prod(dims[axis + 1 :]) for axis in range(len(dims))]


def _four(values: Sequence[int], fill: int) -> tuple[int, int, int, int]:
    n, c, h, w = (*(fill,) * (4 - len(values)), *values)
    return (n, c, h, w)


@native(top.Slice)
class SliceKernel(MoveKernel[top.Slice]):
    """One copy within DDR that begins inside and takes steps."""

    def moves(self, node: Node) -> Sequence[Move]:
        source, result = _strides(node.operand_types[0].dims), node.result_type.dims
        offset = sum(start * stride for start, stride in zip(node.op.offset, source, strict=True))
        read = [step * stride for step, stride in zip(node.op.steps, source, strict=True)]
        return (Move(0, _four(result, 1), offset, _four(read, 0), 0, _four(_strides(result), 0)),)


@native(top.Concat)
class ConcatKernel(MoveKernel[top.Concat]):
    """One copy within DDR per operand."""

    def moves(self, node: Node) -> Sequence[Move]:
        target = _strides(node.result_type.dims)
        axis = positive_axis(node.op.axis, node.result_type.rank)
        moves: list[Move] = []
        at = 0
        for index, part in enumerate(node.operand_types):
            source = _four(_strides(part.dims), 0)
            moves.append(Move(index, _four(part.dims, 1), 0, source, at * target[axis], _four(target, 0)))
            at += part.dims[axis]
        return moves
