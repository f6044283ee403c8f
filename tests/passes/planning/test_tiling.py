"""Tiles: they cover the result exactly once, fit local memory, and walk a reduction from first to last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import (
    Axis,
    Block,
    Box,
    Chip,
    DdrTensor,
    Layouts,
    LmemModel,
    LmemOverflow,
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
from tpuc_passes.planning.buffers import BlockLoad, OperandLoad
from tpuc_passes.planning.pack import blocks_of, pack_task
from tpuc_passes.planning.task import KernelFacts, TileTask
from tpuc_passes.planning.tiling import buffers_of, choose_tiling, lmem_need


class _Lmem(LmemModel):
    lanes = 4
    lane_bytes = 256
    alignment = 4

    def tensor_bytes(self, layout: str, shape: Shape4, item_bytes: int) -> int:
        n, c, h, w = shape
        return n * -(-c // self.lanes) * -(-h * w * item_bytes // 4) * 4


class _Description:
    name = "tiny"
    ddr_base = 0


class _Transfer:
    """Stands for any instruction; its cycles are its bytes."""

    def __init__(self, size: int) -> None:
        self.size = size


class _Assembler:
    def __init__(self) -> None:
        self.instructions: list[_Transfer] = []

    def load(self, target: LocalTensor, source: DdrTensor) -> None:
        self.instructions.append(_Transfer(math.prod(target.shape)))

    def store(self, target: DdrTensor, source: LocalTensor) -> None:
        self.instructions.append(_Transfer(math.prod(source.shape)))

    def load_block(self, target: LocalBlock, address: int) -> None:
        self.instructions.append(_Transfer(target.lanes * target.bytes_per_lane))


class _Chip:
    lmem = _Lmem()
    description = _Description()
    profiles = ("bytes",)

    def assembler(self) -> _Assembler:
        return _Assembler()

    def cycles(self, instruction: _Transfer, profile: str) -> int:
        return 10 + instruction.size


class _Op:
    name = "test.Conv"


class _Conv(TileKernel[Any]):
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

    def emit(self, node: Node, placed: PlacedTile, phase: Phase, asm: _Assembler) -> None:
        asm.instructions.append(_Transfer(math.prod(placed.result.shape)))

    def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
        shape = (tile.size("n"), tile.size("c"), tile.size("h"), tile.size("w"))
        return (Scratch("sum", _Lmem().tensor_bytes("aligned", shape, 4)),)


def _task(n: int, c: int, k: int, h: int, w: int, kernel: _Conv | None = None) -> TileTask:
    types = (TensorType((n, k, h, w), I8), TensorType((c, k, 3, 3), I8))
    node = Node(_Op(), types, (TensorType((n, c, h, w), I8),), "conv")
    facts = KernelFacts(node, kernel or _Conv())
    chip: Chip = _Chip()  # pyright: ignore[reportAssignmentType]  # only its local memory is used here
    operation = Operation(Op(), Block(types).arguments, node.result_types)
    return TileTask(operation, node, facts.kernel, chip, {axis.name: axis.size for axis in facts.space.axes}, facts)


SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), st.integers(1, 20))


@given(SHAPES)
def test_tiles_cover_the_result_exactly_once_per_reduction_step(shape: tuple[int, int, int, int, int]) -> None:
    task = choose_tiling(_task(*shape))
    n, c, k, h, w = shape
    seen = np.zeros((n, c, h, w, k), np.int64)
    for tile in task.tiles:
        place = tuple(slice(*tile.range(axis)) for axis in "nchwk")
        seen[place] += 1
    assert (seen == 1).all()


@given(SHAPES)
def test_all_copies_of_all_buffers_fit(shape: tuple[int, int, int, int, int]) -> None:
    task = choose_tiling(_task(*shape))
    buffers = buffers_of(task)
    assert lmem_need(buffers, task.chip) <= 256
    for step in buffers.steps:
        for index, box in enumerate(step.boxes):
            if box is not None:
                assert task.operand_bytes(index, box) <= buffers.operand_bytes[index]


@given(SHAPES)
def test_an_early_load_never_hits_what_the_tile_before_it_reads(shape: tuple[int, int, int, int, int]) -> None:
    buffers = buffers_of(choose_tiling(_task(*shape)))
    for before, step in zip(buffers.steps, buffers.steps[1:], strict=False):
        for load in step.early:
            match load:
                case OperandLoad(operand=operand, slot=slot):
                    assert before.operand_slots[operand] != slot
                case BlockLoad(group=group, slot=slot):
                    assert before.group_slots[group] != slot


def test_phases_run_from_first_to_last_within_one_result() -> None:
    task = _task(1, 4, 6, 4, 4).with_sizes({"c": 4, "n": 1, "h": 4, "w": 4, "k": 2})
    assert [task.phase(tile) for tile in task.tiles] == [Phase.FIRST, Phase.MIDDLE, Phase.LAST]
    assert [step.result_slot for step in buffers_of(task).steps] == [0, 0, 0]


def test_constants_that_vary_together_are_one_block() -> None:
    whole = _task(1, 4, 4, 4, 4)
    assert len(whole.constant_groups) == 1
    split = whole.with_sizes({"c": 4, "n": 1, "h": 4, "w": 4, "k": 2})
    assert [[constant.name for constant in group] for group in split.constant_groups] == [["filter"], ["bias"]]
    blocks = list(blocks_of(split).values())
    assert [(block.group, block.key) for block in blocks] == [
        (0, ((0, 4), (0, 2))),
        (1, ((0, 4),)),
        (0, ((0, 4), (2, 4))),
    ]
    packed = pack_task(split, [None, None])
    first, bias, second = (packed[b.offset : b.offset + b.lanes * b.bytes_per_lane] for b in blocks)
    assert (first == 1).all()
    assert (bias == 100).all()
    assert (second == 3).all()


def test_an_op_whose_smallest_tile_is_too_large_is_refused() -> None:
    class Greedy(_Conv):
        def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
            return (Scratch("table", 300),)

    task = _task(1, 1, 1, 1, 1, Greedy())
    with pytest.raises(LmemOverflow) as caught:
        choose_tiling(task)
    assert str(caught.value) == (
        "node 'conv': test.Conv on tiny: the smallest tile needs 316 bytes of local memory per lane and there are 256; "
        "split the op in the network"
    )


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ((0, 4), (0, 5, 1, 0)),  # the first rows see the padding above
        ((4, 8), (3, 9, 0, 0)),  # inner rows see a halo on both sides
        ((8, 10), (7, 10, 0, 1)),  # the last rows see the padding below
    ],
)
def test_a_window_reads_its_halo_and_keeps_the_padding_at_the_border(
    rows: tuple[int, int], expected: tuple[int, int, int, int]
) -> None:
    assert window(*rows, stride=1, extent=3, pad_before=1, limit=10) == expected
