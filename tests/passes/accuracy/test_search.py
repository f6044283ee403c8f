"""Mixed precision: texts as in the seeds, the choice of a point, the front."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tpuc_passes.accuracy.search import LayerLoss, Point, Search, greedy

POINTS = (
    Point((), 0.90, -10.0, 1.0),
    Point(("a",), 0.95, -13.0, 1.5),
    Point(("a", "b"), 0.94, -12.0, 1.6),
    Point(("a", "b", "c"), 0.99, -20.0, 3.0),
)
FOUND = Search(
    "chip", "int8", "f32", 3, (LayerLoss("a", "top.Conv", -36.5, 0.9), LayerLoss("b", "top.Add", -37.0, 1.0)), POINTS
)


def test_tables_are_as_in_the_seeds() -> None:
    head = "# sample number: 3\n# all int8 loss: -10.0\n# chip: chip  mix_mode: F32\n###\n"
    assert FOUND.loss_text() == head + "No. 0: Layer:a Loss: -36.5\nNo. 1: Layer:b Loss: -37.0\n"
    assert FOUND.table_text(POINTS[2]) == head + "# op_name   quantize_mode\na F32\nb F32\n"


@pytest.mark.parametrize(
    ("cosine", "milliseconds", "expected"),
    [(0.94, None, 1), (None, 2.0, 1), (None, None, 3), (0.98, 2.0, None), (0.5, 1.0, 0), (None, 0.5, None)],
)
def test_the_choice_keeps_the_limits(cosine: float | None, milliseconds: float | None, expected: int | None) -> None:
    assert FOUND.choose(cosine, milliseconds) == (None if expected is None else POINTS[expected])


def test_the_front_leaves_out_what_another_beats() -> None:
    assert FOUND.front() == (POINTS[0], POINTS[1], POINTS[3])


LOSSES = {
    "": -10.0,
    "a": -9.0,
    "b": -10.0,
    "c": -12.0,
    "d": -10.04,
    "ab": -15.0,
    "ac": -11.0,
    "bc": -12.0,
    "cd": -12.0,
    "abc": -17.5,
    "abd": -15.0,
    "abcd": -17.52,
}
"""Of networks with these layers in float."""


class Losses:
    """Gives points from `LOSSES`, and counts what was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, choices: Sequence[tuple[str, ...]]) -> list[Point]:
        self.asked.append(len(choices))
        return [Point(one, 0.9, LOSSES["".join(sorted(one))]) for one in choices]


@pytest.mark.parametrize(
    ("most", "floats"),
    [
        (4, [(), ("a", "b"), ("a", "b", "c")]),  # 2.5 dB for each of a and b; d gains less than is worth a layer
        (2, [(), ("a", "b")]),
        (1, [(), ("c",)]),
    ],
)
def test_each_step_takes_most_of_the_loss_away(most: int, floats: list[tuple[str, ...]]) -> None:
    losses = Losses()
    points = greedy(losses, [("a",), ("a", "b"), ("b",), ("c",), ("d",)], most)
    assert [point.floats for point in points] == floats
    assert losses.asked[0] == 6


def test_nothing_is_float_where_nothing_helps() -> None:
    assert [point.floats for point in greedy(Losses(), [("a",), ("b",), ("d",)], 3)] == [()]
