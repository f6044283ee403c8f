"""A chip so small that everything must be cut, and a convolution for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tpuc.api import (
    Axis,
    Block,
    Box,
    Chip,
    DdrTensor,
    Engine,
    Layouts,
    LmemModel,
    LocalBlock,
    LocalTensor,
    Node,
    Op,
    Operation,
    PackedConstant,
    Phase,
    PlacedTile,
    Scratch,
    Shape4,
    Space,
    TensorType,
    Tile,
    TileKernel,
    View,
    window,
)
from tpuc.ir.types import I8
from tpuc_plan.tasks.plan import Residency
from tpuc_plan.tasks.task import KernelFacts, TileTask


class TinyLmem(LmemModel):
    """Four lanes of 256 bytes."""

    lanes = 4
    lane_bytes = 256
    alignment = 4

    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        n, c, h, w = shape
        return n * -(-c // self.lanes) * -(-h * w * item_bytes // 4) * 4


class TinyDescription:
    """What planning asks of a description."""

    name = "tiny"
    ddr_base = 0


class Transfer:
    """Stands for any instruction; its cycles are its bytes."""

    def __init__(self, size: int, engine: Engine = Engine.COMPUTE) -> None:
        self.size = size
        self.engine = engine


class TinyAssembler:
    """Notes transfers."""

    def __init__(self) -> None:
        self.instructions: list[Transfer] = []

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        self.instructions.append(Transfer(math.prod(target.shape)))

    def store(self, target: DdrTensor, source: LocalTensor) -> None:
        self.instructions.append(Transfer(math.prod(source.shape)))

    def load_block(self, target: LocalBlock, address: int) -> None:
        self.instructions.append(Transfer(target.lanes * target.bytes_per_lane))


class TinyChip:
    """Local memory and a timing model."""

    lmem = TinyLmem()
    description = TinyDescription()
    profiles = ("bytes",)

    def assembler(self) -> TinyAssembler:
        return TinyAssembler()

    def bank_conflicts(self, instruction: Any) -> tuple[()]:
        return ()

    def cycles(self, instruction: Transfer, profile: str) -> int:
        return 10 + instruction.size

    def block_pitch(self, lanes: int, bytes_per_lane: int) -> int:
        return bytes_per_lane


class TinyOp:
    """Stands for any op."""

    name = "test.Conv"


class TinyConv(TileKernel[Any, Any]):
    """A 3×3 convolution with padding 1 and stride 1, filters packed per (c, k)."""

    def space(self, node: Node) -> Space:
        n, c, h, w = node.result_type.dims
        depth = node.operand_types[0].dims[1]
        axes = (Axis("c", c, granularity=4), Axis("n", n), Axis("h", h), Axis("w", w), Axis("k", depth, reduction=True))
        return Space(axes, (View((n, depth, h, w)), None), (View((n, c, h, w)),))

    def reads(self, node: Node, space: Space, tile: Tile) -> Sequence[Box | None]:
        _, _, height, width = node.operand_types[0].dims
        n0, n1 = tile.range("n")
        k0, k1 = tile.range("k")
        top, bottom, above, below = window(*tile.range("h"), 1, 3, 1, height)
        left, right, before, behind = window(*tile.range("w"), 1, 3, 1, width)
        box = Box((n0, k0, top, left), (n1 - n0, k1 - k0, bottom - top, right - left), (above, before, below, behind))
        return [box, None]

    def layouts(self, node: Node) -> Layouts:
        return Layouts(("aligned", ""), ("aligned",))

    def constants(self, node: Node) -> Sequence[PackedConstant]:
        return (PackedConstant("filter", ("c", "k")), PackedConstant("bias", ("c",)))

    def constant_shape(self, node: Node, name: str, tile: Tile) -> tuple[int, int]:
        slots = -(-tile.size("c") // 4)
        return min(tile.size("c"), 4), slots * (4 if name == "bias" else tile.size("k"))

    def pack(self, node: Node, name: str, tile: Tile, arrays: Sequence[Any]) -> Any:
        lanes, count = self.constant_shape(node, name, tile)
        return np.full((lanes, count), 100 if name == "bias" else tile.range("k")[0] + 1, np.uint8)

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: TinyAssembler) -> None:
        asm.instructions.append(Transfer(math.prod(placed.result.shape)))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        return (Scratch("sum", TinyLmem().tensor_bytes("aligned", shape, 4)),)


def conv_task(
    n: int,
    c: int,
    k: int,
    h: int,
    w: int,
    kernel: TinyConv | None = None,
    chip: TinyChip | None = None,
    name: str = "conv",
) -> TileTask:
    """A convolution of `[n, k, h, w]` to `[n, c, h, w]` in one tile."""
    types = (TensorType((n, k, h, w), I8), TensorType((c, k, 3, 3), I8))
    node = Node(TinyOp(), types, (TensorType((n, c, h, w), I8),), name)
    target: Chip = chip or TinyChip()  # pyright: ignore[reportAssignmentType]  # only its local memory is used here
    facts = KernelFacts(node, (kernel or TinyConv()).kernels(node)[0], target)
    operation = Operation(Op(), Block(types).arguments, node.result_types)
    sizes = {axis.name: axis.size for axis in facts.space.axes}
    return TileTask(operation, facts, sizes, Residency.streamed(1))
