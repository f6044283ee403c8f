"""Mixed precision: texts as in the seeds, the choice of a point, the front."""

from __future__ import annotations

import pytest
from tpuc_passes.accuracy.search import LayerLoss, Point, Search

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
