"""Tiles: they cover the result exactly once, fit local memory, and walk a reduction from first to last."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import Axis, LmemOverflow, Node, Phase, Scratch, Tile, window
from tpuc_plan.tasks import tiling
from tpuc_plan.tasks.buffers import fitting_buffers, plan_buffers
from tpuc_plan.tasks.pack import blocks_of, pack_task
from tpuc_plan.tasks.task import TileTask, tile_count
from tpuc_plan.tasks.tiling import choose_tiling

from tests.families import each
from tests.passes.planning.tiny import TinyConv, conv_task

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 9), st.integers(1, 20), st.integers(1, 20))


@given(SHAPES)
def test_tiles_cover_the_result_exactly_once_per_reduction_step(shape: tuple[int, int, int, int, int]) -> None:
    task = choose_tiling(conv_task(*shape))
    n, c, k, h, w = shape
    seen = np.zeros((n, c, h, w, k), np.int64)
    for tile in task.tiles:
        place = tuple(slice(*tile.range(axis)) for axis in "nchwk")
        seen[place] += 1
    assert (seen == 1).all()


@given(SHAPES)
def test_all_copies_of_all_buffers_fit(shape: tuple[int, int, int, int, int]) -> None:
    task = choose_tiling(conv_task(*shape))
    buffers = plan_buffers(task)
    if buffers.lane_bytes(task.chip.lmem) > 256:
        buffers = plan_buffers(task, double=False)
    assert buffers.lane_bytes(task.chip.lmem) <= 256
    for step in buffers.steps:
        for index, box in enumerate(step.boxes):
            if box is not None:
                assert task.operand(index).lane_bytes(box.shape) <= buffers.operands[index].bytes_per_lane


@given(SHAPES, st.integers(1, 20), st.integers(1, 20), st.integers(1, 9))
def test_a_tiling_is_left_as_soon_as_it_does_not_fit(
    shape: tuple[int, int, int, int, int], h: int, w: int, k: int
) -> None:
    whole = conv_task(*shape)
    cut = {"h": min(h, shape[3]), "w": min(w, shape[4]), "k": min(k, shape[2])}
    task = whole.with_sizes({**whole.sizes, **cut})
    every = plan_buffers(task)
    found = fitting_buffers(task.with_sizes(task.sizes))
    assert found == (every if every.lane_bytes(task.chip.lmem) <= 256 else None)


def test_tilings_are_tried_from_few_tiles_to_many() -> None:
    """Those of equally many tiles in the order of the axes; none of more than 4,096."""
    task = conv_task(3, 9, 9, 4000, 400)
    sizes = [{axis.name: size for axis, size in zip(task.space.axes, chosen, strict=True)} for chosen in tilings(task)]
    counted = [(tile_count(task.space, one), one) for one in sizes]
    wanted = sorted((pair for pair in counted if pair[0] <= 4096), key=lambda pair: pair[0])
    assert [*tiling._candidates(task)] == [one for _, one in wanted]  # pyright: ignore[reportPrivateUsage]
    assert len(wanted) < len(counted)


def tilings(task: TileTask) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(tiling._sizes_of, task.space.axes))  # pyright: ignore[reportPrivateUsage]


def test_a_tiling_of_many_tiles_that_do_not_fit_costs_one_tile() -> None:
    """Otherwise an op on 39 million elements took minutes, most of them on tilings that were never taken."""
    task = conv_task(3, 9, 9, 4000, 400).with_sizes({"c": 9, "n": 1, "h": 1, "w": 400, "k": 9})
    looked: list[Tile] = []
    boxes = TileTask.boxes

    def look(self: TileTask, tile: Tile) -> object:
        looked.append(tile)
        return boxes(self, tile)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TileTask, "boxes", look)
        assert fitting_buffers(task) is None
    assert len(looked) <= 2


def test_buffers_are_as_large_as_their_largest_part_and_double_where_there_are_several() -> None:
    # 6 channels of 4 lanes, 5 rows in tiles of 2, pads 1: each tile reads its rows and one around them.
    task = conv_task(1, 4, 6, 5, 3).with_sizes({"c": 4, "n": 1, "h": 2, "w": 3, "k": 6})
    for double, copies in ((True, 2), (False, 1)):
        buffers = plan_buffers(task, double=double)
        rows = [box.shape[2] for step in buffers.steps for box in step.boxes if box is not None]
        operand = 2 * -(-max(rows) * 3 // 4) * 4
        result = -(-2 * 3 // 4) * 4
        assert buffers.operands[0].bytes_per_lane == operand
        assert buffers.results[0].bytes_per_lane == result
        assert [step.operands for step in buffers.steps] == [(0,)] * 3
        assert [step.groups for step in buffers.steps] == [(0,), (), ()]  # the same constants for all rows
        constants = -(-buffers.groups[0].bytes_per_lane // 4) * 4
        scratch = 4 * 2 * 3  # sums of 32 bits
        assert buffers.lane_bytes(task.chip.lmem) == copies * (operand + result) + constants + scratch


def test_phases_run_from_first_to_last_within_one_result() -> None:
    task = conv_task(1, 4, 6, 4, 4).with_sizes({"c": 4, "n": 1, "h": 4, "w": 4, "k": 2})
    assert [task.phase(tile) for tile in task.tiles] == [Phase.FIRST, Phase.MIDDLE, Phase.LAST]
    [result] = plan_buffers(task).results
    assert result.parts == 1


def test_constants_that_vary_together_are_one_block() -> None:
    whole = conv_task(1, 4, 4, 4, 4)
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
    class Greedy(TinyConv):
        def scratch(self, node: Node, tile: Tile) -> Sequence[Scratch]:
            return (Scratch("table", 300),)

    with pytest.raises(LmemOverflow) as caught:
        choose_tiling(conv_task(1, 1, 1, 300, 300, Greedy()))
    assert str(caught.value) == (
        "node 'conv': test.Conv on tiny: no tiling of up to 4096 tiles fits in local memory, and 90000 of the smallest "
        "tiles are too many to plan; split the op in the network"
    )
    task = conv_task(1, 1, 1, 1, 1, Greedy())
    with pytest.raises(LmemOverflow) as caught:
        choose_tiling(task)
    assert str(caught.value) == (
        "node 'conv': test.Conv on tiny: the smallest tile needs 316 bytes of local memory per lane, but only 256 "
        "exist; split the op in the network"
    )


@each(
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


@each(
    ("axis", "sizes"),
    [
        (Axis("w", 24), [24, 12, 8, 6, 5, 4, 3, 2, 1]),
        (Axis("w", 24, minimum=7), [24, 12, 8, 7]),
        (Axis("w", 24, granularity=8), [24, 16, 8]),
        (Axis("w", 24, granularity=5, minimum=2), [24, 15, 10, 5]),
        (Axis("w", 24, limit=12), [12, 8, 6, 5, 4, 3, 2, 1]),
        (Axis("w", 24, granularity=5, limit=18), [15, 10, 5]),
        (Axis("w", 5, granularity=8), [5]),
    ],
)
def test_sizes_of_tiles_are_parts_of_the_axis_in_whole_units(axis: Axis, sizes: list[int]) -> None:
    """From the whole, or the largest that the limit allows, down to the least."""
    assert tiling._sizes_of(axis) == sizes  # pyright: ignore[reportPrivateUsage]


def test_the_search_ends_after_as_many_worse_tilings_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    task, costs = conv_task(1, 4, 4, 8, 8), iter([5, 6, 4, 6, 6, 1])
    monkeypatch.setattr(tiling, "_may_fit", lambda _: True)
    monkeypatch.setattr(tiling, "fitting_buffers", lambda _: "some")
    monkeypatch.setattr(tiling, "streamed_cycles", lambda *_: next(costs))
    third = [*tiling._candidates(task)][2]  # pyright: ignore[reportPrivateUsage]
    assert choose_tiling(task, patience=2).sizes == third
    assert [*costs] == [1]


def test_results_that_fill_local_memory_leave_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which is found without a look at scratch memory."""
    monkeypatch.setattr(TileTask, "scratch", lambda *_: ())
    assert not tiling._may_fit(conv_task(1, 9, 1, 20, 20))  # pyright: ignore[reportPrivateUsage]
